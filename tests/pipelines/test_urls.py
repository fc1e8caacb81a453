"""The command that fetches tables of URLs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_mds import read_samples
from beam_mds.cli import main as program
from beam_mds.indexes import read_index
from beam_mds.sources.fetching import client
from pipelines import urls
from pipelines.conversion import run
from tests.helpers.web import JPEG, MP4, Web, serve


@pytest.fixture
def web() -> Iterator[Web]:
    with serve() as server:
        yield server


def convert(out: Path, *options: str) -> list[dict[str, Any]]:
    """Runs the command; the samples, sorted."""
    urls.main([f'--output={out}', '--allow_private_hosts', '--runner=FnApiRunner', *options])
    return sorted(read_samples(out), key=lambda sample: str(sorted(sample.items())))


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What the command says of options that cannot be."""
    with pytest.raises(SystemExit) as raised:
        run('urls', ['--output=out', '--runner=FnApiRunner', *options])
    assert raised.value.code == 2
    return ' '.join(capsys.readouterr().err.split())


def encodings(out: Path) -> dict[str, str]:
    (first, *_) = read_index(out)
    return first.config.columns.as_dict()


def letters(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_table_becomes_a_dataset_and_what_fails_a_list(
    web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = tmp_path / 'a.csv', tmp_path / 'out'
    good, gone, page = web.url('/jpeg/'), web.url('/status/404'), web.url('/html/')
    table.write_text(f'url,caption\n{good},a cat\n{gone},a dog\n{page},a page\n')
    samples = convert(out, f'--input={table}', '--max_error_ratio=0.7')
    assert samples == [{'url': good, 'caption': 'a cat', 'image': JPEG, 'status': 200}]
    assert encodings(out) == {'url': 'str', 'caption': 'str', 'image': 'bytes', 'status': 'int'}
    found = letters(tmp_path / 'out.errors.jsonl')
    assert {(one['error_type'], one['element']['caption']) for one in found} == {
        ('http_404', 'a dog'), ('wrong_type', 'a page'),
    }  # fmt: skip
    printed = ' '.join(capsys.readouterr().out.split())
    assert 'records read 3 records refused 2' in printed


def test_one_failure_fails_the_job_unless_more_are_allowed(web: Web, tmp_path: Path) -> None:
    table = tmp_path / 'a.txt'
    table.write_text(f'{web.url("/jpeg/")}\n{web.url("/status/404")}\n')
    with pytest.raises(SystemExit, match='1 of 2 samples were refused'):
        convert(tmp_path / 'out', f'--input={table}')
    assert not (tmp_path / 'out' / 'index.json').exists()
    assert len(letters(tmp_path / 'out.errors.jsonl')) == 1


def test_the_errors_of_a_run_are_the_input_of_the_next_one(web: Web, tmp_path: Path) -> None:
    table, out = tmp_path / 'a.csv', tmp_path / 'out'
    rows = [web.url('/jpeg/'), web.url('/busy/503/1/0')]
    table.write_text('url,n\n' + ''.join(f'{url},{n}\n' for n, url in enumerate(rows)))
    convert(out, f'--input={table}', '--max_error_ratio=0.5', '--retries=0')
    errors, again = tmp_path / 'out.errors.jsonl', tmp_path / 'again.jsonl'
    samples = convert(
        out, f'--resume_errors={errors}', '--if_exists=append', f'--errors_output={again}'
    )
    assert [(sample['n'], sample['image']) for sample in samples] == [('0', JPEG), ('1', JPEG)]
    assert letters(again) == []


def test_a_second_run_fetches_only_what_the_dataset_has_not(web: Web, tmp_path: Path) -> None:
    table, out = tmp_path / 'a.csv', tmp_path / 'out'
    paths = [web.url(f'/jpeg/{number}') for number in range(3)]
    options = [f'--input={table}', '--if_exists=append', '--rename=url=link']
    table.write_text('url\n' + '\n'.join(paths[:2]))
    convert(out, *options)
    table.write_text('url\n' + '\n'.join([*paths, paths[2]]))
    samples = convert(out, *options, '--skip_existing', '--deduplicate')
    assert [sample['link'] for sample in samples] == paths
    assert set(web.seen.values()) == {1}


def test_laion_gives_the_names_of_img2dataset(web: Web, tmp_path: Path) -> None:
    table, out = tmp_path / 'part-00000.parquet', tmp_path / 'out'
    rows = {
        'SAMPLE_ID': [1.0, 2.0], 'URL': [web.url('/jpeg/1'), web.url('/unsaid/2')],
        'TEXT': ['a cat', 'a dog'], 'HEIGHT': [10, 20], 'similarity': [0.25, 0.5],
    }  # fmt: skip
    pq.write_table(pa.table(rows), table)
    samples = convert(out, f'--input={table}', '--preset=laion')
    assert encodings(out) == {
        'SAMPLE_ID': 'float64', 'url': 'str', 'caption': 'str', 'HEIGHT': 'int64',
        'similarity': 'float64', 'jpg': 'bytes', 'status': 'int',
    }  # fmt: skip
    assert {(one['caption'], one['HEIGHT']) for one in samples} == {('a cat', 10), ('a dog', 20)}


def test_cc12m_has_no_header_and_quotes_of_its_own(web: Web, tmp_path: Path) -> None:
    table, out = tmp_path / 'cc12m.tsv', tmp_path / 'out'
    table.write_text(f'{web.url("/jpeg/1")}\ta "red" car\n{web.url("/jpeg/2")}\t"so\n')
    samples = convert(out, f'--input={table}', '--preset=cc12m')
    assert sorted(sample['caption'] for sample in samples) == ['"so', 'a "red" car']
    assert samples[0]['jpg'] == JPEG


def test_webvid_gives_the_columns_of_the_upstream_script(web: Web, tmp_path: Path) -> None:
    table, out = tmp_path / 'results_2M_val.csv', tmp_path / 'out'
    table.write_text(
        'videoid,contentUrl,duration,page_dir,name\n'
        f'21179416,{web.url("/video/1")},PT00H00M11S,006001_006050,"Aerial shot, winter"\n'
    )
    samples = convert(out, f'--input={table}', '--preset=webvid')
    assert samples == [
        {
            'videoid': '21179416', 'contentUrl': web.url('/video/1'), 'duration': 11,
            'page_dir': '006001_006050', 'name': 'Aerial shot, winter', 'content': MP4,
        }
    ]  # fmt: skip
    assert encodings(out)['duration'] == 'int'
    assert encodings(out)['content'] == 'bytes'


def test_images_are_resized_where_it_is_asked_for(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (('wide.png', (40, 20)), ('broken.png', None)):
        picture = io.BytesIO()
        Image.new('RGB', size or (9, 9), 'red').save(picture, 'PNG')
        data = picture.getvalue() if size else picture.getvalue()[:40]
        (tmp_path / name).write_bytes(data)
    table, out = tmp_path / 'a.txt', tmp_path / 'out'
    table.write_text(f'file://{tmp_path}/wide.png\nfile://{tmp_path}/broken.png\n')
    options = [f'--input={table}', '--schemes=file', '--max_error_ratio=0.5']
    # Nothing is asked of the images: not even whether they are whole.
    assert len(convert(tmp_path / 'kept', *options)) == 2
    (sample,) = convert(
        out, *options, '--resize_mode=keep_ratio', '--image_size=10', '--encode_format=jpg'
    )
    with Image.open(io.BytesIO(sample['image'])) as image:
        assert (image.format, image.size) == ('JPEG', (20, 10))
    (letter,) = letters(tmp_path / 'out.errors.jsonl')
    assert letter['error_type'] == 'image'
    assert letter['element'] == {'url': f'file://{tmp_path}/broken.png'}
    (checked,) = convert(tmp_path / 'checked', *options, '--verify_images')
    assert checked['image'] == (tmp_path / 'wide.png').read_bytes()


def test_a_dry_run_fetches_a_few_and_writes_nothing(
    web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / 'a.txt'
    table.write_text('\n'.join(web.url(f'/jpeg/{number}') for number in range(100)))
    out = tmp_path / 'out'
    urls.main([
        f'--output={out}', f'--input={table}', '--allow_private_hosts', '--dry_run_sample=2',
    ])  # fmt: skip
    assert 'record 1' in capsys.readouterr().out
    assert sum(web.seen.values()) <= 16
    assert not out.exists()


def test_options_reach_the_client(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    make = client.Client.__init__

    def note(self: client.Client, options: Any, executor: Any) -> None:
        seen.append(options)
        make(self, options, executor)

    monkeypatch.setattr(client.Client, '__init__', note)
    table = tmp_path / 'a.txt'
    table.write_text(web.url('/jpeg/'))
    convert(
        tmp_path / 'out', f'--input={table}', '--concurrency=3', '--per_host=2',
        '--connect_timeout=1.5', '--read_timeout=2.5', '--total_timeout=3.5', '--max_bytes=1mb',
        '--max_in_flight=2mb', '--max_redirects=4', '--retries=5', '--max_retry_after=6.5',
        '--accept=image/jpeg', '--schemes=http', '--user_agent_token=me', '--contact=mail',
        '--disallowed_header_directives=none',
    )  # fmt: skip
    assert seen[-1] == client.FetchOptions(
        concurrency=3, per_host=2, connect_timeout=1.5, read_timeout=2.5, total_timeout=3.5,
        max_bytes='1mb', max_in_flight='2mb', max_redirects=4, retries=5, max_retry_after=6.5,
        accept='image/jpeg', schemes='http', user_agent_token='me', contact='mail',
        disallowed_header_directives='', allow_private_hosts=True,
    )  # fmt: skip


def test_private_hosts_are_refused_unless_they_are_allowed(web: Web, tmp_path: Path) -> None:
    table, out = tmp_path / 'a.txt', tmp_path / 'out'
    table.write_text(web.url('/jpeg/'))
    with pytest.raises(SystemExit, match='1 of 1 samples were refused'):
        urls.main([f'--output={out}', f'--input={table}', '--runner=FnApiRunner'])
    (letter,) = letters(tmp_path / 'out.errors.jsonl')
    assert letter['error_type'] == 'refused_address'
    assert web.connections == 0


def test_the_program_converts_urls_too(web: Web, tmp_path: Path) -> None:
    table, out = tmp_path / 'a.txt', tmp_path / 'out'
    table.write_text(f'{web.url("/jpeg/")}\n{web.url("/status/404")}\n')
    code = program([
        'convert', 'urls', '--input', str(table), '--output', str(out), '--allow_private_hosts',
        '--max_error_ratio', '1', '--', '--runner=FnApiRunner',
    ])  # fmt: skip
    assert code == 1
    assert [sample['image'] for sample in read_samples(out)] == [JPEG]


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        ([], '--input is needed'),
        (
            ['--input={csv}'],
            "the table has no column 'url', only link, image: say with --url_column which one",
        ),
        (
            ['--input={csv}', '--url_column=link'],
            "the table has a column 'image' already: give --bytes_column another name",
        ),
        (
            ['--input={csv}', '--url_column=link', '--bytes_column=b', '--status_column=link'],
            'the columns of URL, bytes and status must differ',
        ),
        (['--input={csv}', '--resume_errors={csv}'], '--resume_errors takes the place of --input'),
        (
            ['--resume_errors={csv}', '--errors_output={csv}'],
            'the errors of this run would take its place; give another file as --errors_output',
        ),
        (['--input={txt}', '--skip_existing'], '--skip_existing needs --if_exists append'),
        (
            ['--input={txt}', '--skip_existing', '--if_exists=append', '--columns=image,status'],
            "--skip_existing needs the column 'url' in the dataset: add it to --columns",
        ),
        (['--input={txt}', '--concurrency=0'], 'concurrency must be an integer of at least 1'),
        (['--input={txt}', '--accept=pictures'], "accept='pictures' is no type"),
        (
            ['--input={csv}', '--preset=webvid', '--url_column=link'],
            "the table has no column 'duration', which the preset takes",
        ),
        (['--input={txt}', '--image_size=5'], 'a resize needs both a size and a mode'),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    paths = {'csv': tmp_path / 'a.csv', 'txt': tmp_path / 'a.txt'}
    paths['csv'].write_text('link,image\nhttp://h/,1\n')
    paths['txt'].write_text('http://h/\n')
    assert words in refused(capsys, *(option.format(**paths) for option in options))
