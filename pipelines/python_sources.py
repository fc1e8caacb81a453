"""The Python standard library's sources as an MDS dataset, read back and compared (`make demo`)."""

from __future__ import annotations

import hashlib
import platform
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

from beam_mds import read_samples
from beam_mds.sources.files import decode_text
from beam_mds.sources.inputs import list_files
from pipelines import conversion
from pipelines.options import make_parser
from pipelines.report import counters_of, dataset_rows, table

_PATTERN = '*.py'

# Folders below the standard library that are not it: other people's packages.
_EXCLUDE = ('site-packages', 'dist-packages', '__pycache__')

_HASH = 'xxh64'

# Small, so that 30 MB of sources give more than one shard.
_SIZE_LIMIT = '4mb'


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the dataset with `pipelines.files`, reads it back, and prints a table."""
    parser = make_parser('pipelines.python_sources', __doc__)
    parser.epilog = None
    parser.add_argument('--output', required=True, metavar='FOLDER', help='where the dataset goes')
    output = parser.parse_args(argv).output
    source = sysconfig.get_path('stdlib')
    print(f'Python {platform.python_version()}: {_PATTERN} below {source}')

    start = time.perf_counter()
    _, result = conversion.run(
        'files',
        [
            f'--input={source}',
            f'--pattern={_PATTERN}',
            *(f'--exclude={name}' for name in _EXCLUDE),
            f'--output={output}',
            '--compression=zstd',
            f'--hashes={_HASH}',
            f'--size_limit={_SIZE_LIMIT}',
            '--key=package',
            '--undecodable=skip',
            '--runner=FnApiRunner',
        ],
    )
    result.wait_until_finish()
    written = time.perf_counter()
    packages, left_out = check(output, source)
    checked = time.perf_counter()

    if len(left_out) != counters_of(result).get('files_skipped', 0):
        raise SystemExit(f'files are missing that were not skipped, among {", ".join(left_out)}')
    rows = [
        *dataset_rows(output),
        ('packages', f'{packages:,}'),
        ('write', f'{written - start:.1f} s'),
        ('read and compare', f'{checked - written:.1f} s'),
        ('files skipped', f'{len(left_out):,}'),
        *(('', f'{name}') for name in left_out),
        ('dataset', output),
    ]
    print(table(rows))
    print('Every sample has the size, sha256 and text of its file; nothing else is missing.')


def check(dataset: str, source: str) -> tuple[int, list[str]]:
    """Reads a dataset back, and compares every sample with the file it came from.

    Args:
        dataset: Its folder.
        source: The folder of the files.

    Returns:
        The number of packages, and the sorted paths of the files that the dataset does not have.

    Raises:
        SystemExit: A sample is not what its file is, or is there twice.
    """
    paths = {file.name: file.path for file in list_files(source, _PATTERN, _EXCLUDE)}
    packages = set()
    for sample in read_samples(dataset, validate_hash=_HASH):
        name = sample['path']
        data = Path(paths.pop(name)).read_bytes() if name in paths else b''
        found = (sample['size'], sample['sha256'], sample['text'])
        if found != (len(data), hashlib.sha256(data).hexdigest(), decode_text(data, name)):
            raise SystemExit(f'{name}: the sample is not what the file is, or is there twice')
        packages.add(sample['package'])
    return len(packages), sorted(paths)


if __name__ == '__main__':
    main()
