"""beam-mds stats prints what MDSStats finds."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_mds import storage
from beam_mds.cli import console, main
from beam_mds.format import INDEX_NAME, dump_index
from beam_mds.indexes import read_index
from tests.helpers.summing import described
from tests.helpers.writing import write

COLUMNS = {'a': 'ndarray', 'lang': 'str', 'n': 'int', 't': 'str', 'x': 'float32'}

ROWS = [
    {
        'a': np.ones((2, 3), np.uint8) if n % 4 else np.zeros(5),
        'lang': 'de' if n % 3 else "l'été",
        'n': n * 1000,
        't': 'wörd' * n,
        'x': float('nan') if n % 10 == 0 else n / 8,
    }
    for n in range(100)
]

TEXT = """\
100 samples, 29,345 bytes

column  encoding   bytes  of           total  zeros    min      mean     max     1%     5%     25%     50%     75%     95%     99%
a       ndarray    1,825  elements       575      0      5      5.75       6      5      5       5       6       6       6       6
                          numbers               125      0  0.782609       1      0      0       1       1       1       1       1
lang    str          370  characters     302      0      2      3.02       5      2      2       2       2       5       5       5
                          bytes          370      0      2       3.7       7      2      2       2       2       7       7       7
n       int          800  numbers                 1      0    49,500  99,000      0  4,000  23,936  48,896  73,728  93,696  97,792
t       str       24,750  characters  19,800      1      0       198     396      0     16      96     196     296     376     392
                          bytes       24,750      1      0     247.5     495      0     20     120     245     370     470     490
x       float32      400  numbers                 0  0.125      6.25  12.375  0.125  0.625   3.125   6.125   9.375  11.875  12.375

a     dtypes  uint8: 75, float64: 25
a     shapes  2 x 3: 75
lang  values  'de': 66, "l'été": 34
n     values  0: 1, 1000: 1, 2000: 1, 3000: 1, 4000: 1, 5000: 1, 6000: 1, 7000: 1, 8000: 1, 9000: 1, ... (100 in all)
t     values  more than 1,000 different ones, or longer than 64 characters
x     NaN     10
"""  # noqa: E501


@pytest.fixture(scope='module')
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('made')
    write(ROWS, folder / 'one', COLUMNS, size_limit=9000)
    return folder


def as_json(capsys: pytest.CaptureFixture[str], *arguments: Any, code: int = 0) -> Any:
    """What is printed with --json."""
    assert main(['stats', '--json', *map(str, arguments)]) == code
    return json.loads(capsys.readouterr().out)


def test_a_dataset_is_summed_up_as_two_tables(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['stats', f'{made}/one']) == 0
    out, err = capsys.readouterr()
    assert out == TEXT
    assert err == ''


def test_json_is_what_the_transform_gives(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, made / 'one')
    assert (found['samples'], found['bytes'], found['unread_samples']) == (100, 29345, 0)
    assert [column['name'] for column in found['columns']] == list(COLUMNS)
    x = [row['x'] for row in ROWS]
    assert found['columns'][4]['numbers'] == described(x, floats=True)
    assert found['columns'][1]['values'] == [
        {'value': 'de', 'count': 66},
        {'value': "l'été", 'count': 34},
    ]


def test_columns_split_and_several_datasets_are_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        rows = [{'n': n, 't': 'x', 's': 'ab'[n % 2]} for n in range(9 * number)]
        write(rows, tmp_path / str(number), {'n': 'int', 't': 'str', 's': 'str'}, split='s')
    arguments = ['--columns', 's,n', '--split', 'b', f'{tmp_path}/1', f'{tmp_path}/2/']
    found = as_json(capsys, *arguments)
    assert [column['name'] for column in found['columns']] == ['n', 's']
    assert found['samples'] == 4 + 9
    assert found['columns'][1]['values'] == [{'value': 'b', 'count': 13}]
    assert as_json(capsys, f'{tmp_path}/*', '--split', 'b', '--columns', 'n,s') == found


def test_the_result_is_a_file_that_the_job_writes(
    made: Path, gcs_bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = f'{gcs_bucket}/found.json'
    found = as_json(capsys, made / 'one', '--output', out, '--', '--direct_num_workers=2')
    assert json.loads(storage.read(out)) == found


def test_options_after_two_dashes_are_beam_s(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = as_json(capsys, made / 'one')
    embedded = ['--runner=PortableRunner', '--job_endpoint=embed', '--environment_type=LOOPBACK']
    assert as_json(capsys, made / 'one', '--', *embedded) == found
    flink = ['--runner=FlinkRunner', '--environment_type=DOCKER']
    assert main(['stats', str(made / 'one'), '--', *flink]) == 2
    assert capsys.readouterr().err.startswith('beam-mds: --output is needed: a file that the work')


def test_a_dataset_without_samples_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / INDEX_NAME).write_bytes(dump_index([]))
    assert main(['stats', str(tmp_path)]) == 0
    assert (
        capsys.readouterr().out == '0 samples, 0 bytes\nno samples, so there is nothing to sum up\n'
    )
    assert as_json(capsys, tmp_path)['columns'] == []


def test_a_column_of_no_numbers_has_empty_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write([{'x': float('nan')}], tmp_path, {'x': 'float32'})
    assert main(['stats', str(tmp_path)]) == 0
    assert '\nx       float32       4  numbers             0\n' in capsys.readouterr().out


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A dataset with one sample that is no text; gives its file."""
    write([{'t': f'{n:03}'} for n in range(20)], tmp_path, {'t': 'str'}, num_shards=1)
    (file,) = tmp_path.glob('*.mds')
    data = file.read_bytes()
    file.write_bytes(data[:-3] + b'\xff' + data[-2:])
    return file


def test_damage_is_a_failure_that_names_file_and_sample(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['stats', str(damaged.parent)]) == 3
    out, err = capsys.readouterr()
    assert out == ''
    assert f'beam-mds: {damaged}, sample 19, byte ' in err
    assert "column 't' (str): 3 bytes do not decode" in err


def test_damage_is_skipped_counted_and_a_finding(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['stats', str(damaged.parent), '--skip_damaged']) == 1
    out, err = capsys.readouterr()
    assert out.startswith('19 samples, 133 bytes\n1 sample could not be read\n\ncolumn')
    assert err.startswith(f'beam-mds: not read: {damaged}, sample 19, byte ')
    found = as_json(capsys, damaged.parent, '--skip_damaged', code=1)
    assert (found['samples'], found['unread_samples']) == (19, 1)
    assert [letter['sample'] for letter in found['unread']] == [19]


def test_what_cannot_be_summed_up_is_told(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['stats', str(tmp_path / 'nothing')]) == 3
    assert f'could not read {tmp_path}/nothing/index.json' in capsys.readouterr().err
    assert main(['stats', str(made / 'one'), '--columns', 'a,b']) == 2
    assert f"{made}/one: no column 'b': there are a, lang, n, t, x" in capsys.readouterr().err


def test_progress_is_told_while_the_job_runs(
    made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, '_LINE_EVERY', -1)
    assert main(['stats', str(made / 'one')]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(read_index(made / 'one')) > 2
    assert lines[-1] == '100 samples'


def test_progress_leaves_logging_as_it_was(
    made: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger('beam_mds.reading.steps')
    monkeypatch.setattr(logger, 'level', logging.WARNING)
    before = (logger.level, logger.propagate, list(logger.handlers))
    assert main(['stats', str(made / 'one')]) == 0
    assert (logger.level, logger.propagate, logger.handlers) == before
    assert not [record for record in caplog.records if record.name == logger.name]


def test_a_terminal_gets_a_bar(
    made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, 'isatty', lambda: True)
    monkeypatch.setattr(console, '_LINE_EVERY', -1)
    assert main(['stats', str(made / 'one')]) == 0
    bars = capsys.readouterr().err.split('\r')
    assert bars[1].startswith('0 samples [')
    assert bars[-2:] == [' ' * len(bars[-2]), '']


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(['stats', '--help'])
    assert '  beam-mds stats gs://bucket/dataset\n' in capsys.readouterr().out
