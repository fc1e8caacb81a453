from __future__ import annotations

import io
import pickle
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beam_mds import FormatError, OptionError, StorageError
from beam_mds.format import INDEX_NAME, Samples
from beam_mds.viewing.describe import Place, read_sample
from beam_mds.viewing.show import Undecoded
from tests.helpers.datasets import add_shard, write_dataset, write_index
from tests.helpers.faulty import Faults
from tests.viewing.test_describe import bytes_read

COLUMNS = {'n': 'int32', 'text': 'str'}
SAMPLES = [{'n': number, 'text': f'text {number} ' * 9} for number in range(60)]
SHARDS = [SAMPLES[:30], [], SAMPLES[30:31], SAMPLES[31:]]


@pytest.mark.parametrize('compression', [None, 'zstd', 'br'])
def test_every_sample_is_found_by_its_number_over_all_shards(
    tmp_path: Path, compression: str | None
) -> None:
    infos = write_dataset(tmp_path, SHARDS, COLUMNS, compression=compression)
    for number, sample in enumerate(SAMPLES):
        for given in (number, number - 60):
            place, found = read_sample(tmp_path, given)
            assert found == sample
            assert (place.number, place.samples) == (number, 60)
            assert place.path == str(tmp_path / infos[place.shard].stored.basename)
            assert SHARDS[place.shard][place.row] == sample
    sizes = {'n': 4, 'text': len(str(SAMPLES[-1]['text']))}
    path = str(tmp_path / infos[3].stored.basename)
    assert place == Place(59, 60, 3, 28, path, COLUMNS, sizes)


@pytest.mark.parametrize('compression', [None, 'gz', 'snappy', 'bz2', 'br', 'zstd'])
def test_a_shard_without_an_index_is_enough(tmp_path: Path, compression: str | None) -> None:
    info = add_shard(tmp_path, SAMPLES, COLUMNS, compression=compression)
    file = tmp_path / info.stored.basename
    for number in (0, 7, 59, -1, -60):
        place, found = read_sample(file, number)
        assert found == SAMPLES[number]
        assert (place.row, place.shard, place.path) == (number % 60, 0, str(file))


def test_of_a_raw_shard_only_what_is_needed_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [{'n': number, 'text': 'x' * 1000} for number in range(1000)]
    (info,) = write_dataset(tmp_path, [samples], COLUMNS)
    sizes = bytes_read(monkeypatch)
    config = info.config.empty_size - 8
    for path in (tmp_path, tmp_path / info.stored.basename):
        sizes.clear()
        assert read_sample(path, 500)[1] == samples[500]
        # The head of the shard, two offsets, the config, the sample.
        assert sorted(sizes[-4:]) == [8, 8, config, 4 + 4 + 1000]
        assert len(sizes) == (4 if path == tmp_path else 6)


def test_only_the_shard_of_the_sample_is_opened(faults: Faults) -> None:
    infos = write_dataset(faults.local, SHARDS, COLUMNS, compression='zstd')
    read_sample(faults.folder, 30)
    assert faults.calls('open') == [INDEX_NAME, infos[2].stored.basename]


@pytest.mark.parametrize('number', [60, -61, 10**30])
def test_a_number_out_of_range_is_an_error_that_names_the_count(
    tmp_path: Path, number: int
) -> None:
    write_dataset(tmp_path, SHARDS, COLUMNS)
    with pytest.raises(OptionError) as caught:
        read_sample(tmp_path, number)
    assert str(caught.value) == (
        f'{tmp_path}: no sample {number:,} of 60: there are from 0 to 59, or from the end -1 to -60'
    )


def test_a_dataset_without_samples_has_none(tmp_path: Path) -> None:
    for shards in ([], [[]]):
        write_dataset(tmp_path, shards, COLUMNS)
        with pytest.raises(OptionError, match=r'no sample 0 of 0: there are none$'):
            read_sample(tmp_path, 0)


def test_values_are_those_that_the_reader_gives(tmp_path: Path) -> None:
    image = Image.new('L', (3, 2))
    sample: dict[str, Any] = {
        'array': np.arange(6, dtype=np.int16).reshape(2, 3),
        'json': {'a': [1, None]},
        'list': [image, image],
        'pil': image,
        'price': Decimal('1.50'),
    }
    columns = {
        'array': 'ndarray',
        'json': 'json',
        'list': 'list[png]',
        'pil': 'pil',
        'price': 'str_decimal',
    }
    write_dataset(tmp_path, [[sample]], columns)
    place, found = read_sample(tmp_path, 0)
    assert found['array'].tolist() == sample['array'].tolist()
    assert (found['json'], found['price']) == (sample['json'], sample['price'])
    assert [one.size for one in found['list']] == [(3, 2), (3, 2)]
    assert found['pil'].tobytes() == image.tobytes()
    assert place.sizes['pil'] == 12 + 1 + 6
    assert place.encodings == columns


class Bomb:
    """Notes that it was unpickled."""

    exploded = False

    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> str:
    Bomb.exploded = True
    return 'bang'


@pytest.mark.parametrize('compression', [None, 'zstd'])
def test_pickles_are_read_only_where_it_is_allowed(tmp_path: Path, compression: str | None) -> None:
    data = pickle.dumps(Bomb(), protocol=4)
    sample = {'a': 1, 'p': data}
    (info,) = write_dataset(tmp_path, [[sample]], {'a': 'int', 'p': 'pkl'}, compression=compression)
    for path in (tmp_path, tmp_path / info.stored.basename):
        Bomb.exploded = False
        _, found = read_sample(path, 0)
        reason = 'it is pickled; allow_pickle decodes it, which runs code that is in the data'
        assert found == {'a': 1, 'p': Undecoded(data, reason)}
        assert not Bomb.exploded
        assert read_sample(path, 0, allow_pickle=True)[1] == {'a': 1, 'p': 'bang'}
        assert Bomb.exploded


def test_without_pillow_images_stay_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    Image.new('RGB', (5, 4)).save(file, 'PNG')
    write_dataset(tmp_path, [[{'image': file.getvalue()}]], {'image': 'png'})
    monkeypatch.setitem(sys.modules, 'PIL', None)
    _, sample = read_sample(tmp_path, 0)
    assert sample['image'].data == file.getvalue()
    assert 'beam_mds[images]' in sample['image'].reason


def test_a_missing_or_short_shard_is_an_error_that_names_it(tmp_path: Path) -> None:
    infos = write_dataset(tmp_path, SHARDS, COLUMNS)
    file = tmp_path / infos[0].stored.basename
    data = file.read_bytes()
    file.write_bytes(data[:-5])
    with pytest.raises(FormatError) as caught:
        read_sample(tmp_path, 29)
    assert str(caught.value) == (
        f'{file}, byte {len(data) - 5}: the file ends here, the index says that it has '
        f'{len(data)} bytes'
    )
    file.unlink()
    with pytest.raises(StorageError, match=f'could not read {file}'):
        read_sample(tmp_path, 0)


def test_a_shard_that_is_another_than_listed_is_an_error(tmp_path: Path) -> None:
    first, second = write_dataset(tmp_path, [SAMPLES[:30], SAMPLES[30:]], COLUMNS)
    file = tmp_path / second.stored.basename
    file.write_bytes((tmp_path / first.stored.basename).read_bytes())
    other = add_shard(tmp_path, [{'n': 1}] * 30, {'n': 'int'})
    (tmp_path / first.stored.basename).write_bytes(
        (tmp_path / other.stored.basename).read_bytes().ljust(first.stored.bytes, b'\0')
    )
    with pytest.raises(FormatError, match=r"its columns are \{'n': 'int'\}, the index says"):
        read_sample(tmp_path, 0)


@pytest.mark.parametrize('compression', [None, 'zstd'])
@pytest.mark.parametrize(
    ('bad', 'reason'),
    [
        (b'\1\0\0\0{', "column 'j' (json): 1 bytes do not decode"),
        (b'\5\0\0\0{}', 'sample has 6 bytes, its columns need 9'),
        (b'\5\0', 'sample of 2 bytes is shorter than its head'),
    ],
)
def test_a_damaged_sample_is_an_error_with_its_place(
    tmp_path: Path, compression: str | None, bad: bytes, reason: str
) -> None:
    samples = Samples.of([b'\2\0\0\0{}', bad])
    info = add_shard(tmp_path, samples, {'j': 'json'}, compression=compression)
    write_index(tmp_path, [info])
    file = tmp_path / info.stored.basename
    start = info.config.empty_size + 4 * 2 + 6
    for path in (tmp_path, file):
        assert read_sample(path, 0)[1] == {'j': {}}
        with pytest.raises(FormatError) as caught:
            read_sample(path, 1)
        assert str(caught.value).startswith(f'{file}, sample 1, byte {start}: {reason}')


def test_an_image_that_is_none_is_an_error(tmp_path: Path) -> None:
    write_dataset(tmp_path, [[{'image': b'no image'}]], {'image': 'jpeg'})
    with pytest.raises(FormatError, match=r"sample 0, byte \d+: column 'image' \(jpeg\): 8 bytes"):
        read_sample(tmp_path, 0)
