"""FetchUrls and ReadUrls in pipelines, with real servers."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_mds import (
    BadRecord,
    FetchOptions,
    FetchUrls,
    MissingExtraError,
    OptionError,
    ReadUrls,
    UrlRowOptions,
    WriteToMDS,
    read_samples,
)
from beam_mds.records import PLACE
from beam_mds.sources.fetching import fetcher as fetching
from beam_mds.sources.fetching.outcomes import FAILURES
from beam_mds.sources.urlrows import Row, seconds_of
from beam_mds.sources.urls import _Fetch
from tests.fetching.test_client import assert_nothing_is_held
from tests.helpers.runners import runner_of
from tests.helpers.web import JPEG, PNG, Web, serve

_LOCAL = FetchOptions(allow_private_hosts=True, retries=1)


@pytest.fixture
def web() -> Iterator[Web]:
    with serve() as server:
        yield server


def run(transform: Any, rows: Sequence[Any] | None = None) -> tuple[list[Any], Any]:
    """What a transform gives, and the counters."""
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    start = pipeline if rows is None else pipeline | beam.Create(rows)
    found = start | 'T' >> transform
    outputs = found if isinstance(found, dict) else {'samples': found}
    for name, collection in outputs.items():
        _ = collection | f'Keep{name}' >> beam.Map(_keep)
    _kept.clear()
    result = pipeline.run()
    result.wait_until_finish()
    return list(_kept), counters_of(result)


_kept: list[Any] = []


def _keep(value: Any) -> None:
    _kept.append(value)


def _keep_timed(
    sample: Any, time: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
) -> None:
    _kept.append((sample['n'], float(time), float(window.start)))


def counters_of(result: Any) -> dict[str, int]:
    return {
        counter.key.metric.name: counter.result
        for counter in result.metrics().query()['counters']
        if counter.key.metric.namespace == 'beam_mds' and counter.result
    }


def by_url(values: Sequence[Any]) -> dict[str, Any]:
    return {
        value.place['url'] if isinstance(value, BadRecord) else value['url']: value
        for value in values
    }


# Rows.


def test_a_sample_is_its_row_with_the_bytes_the_status_and_the_place(web: Web) -> None:
    row = {'url': web.url('/jpeg/'), 'caption': 'a cat', PLACE: {'file': 'a.csv', 'line': 3}}
    (sample,), counters = run(FetchUrls(fetch=_LOCAL), [row])
    assert sample == {
        'url': row['url'], 'caption': 'a cat', 'content': JPEG, 'status': 200,
        PLACE: {'file': 'a.csv', 'line': 3, 'url': row['url']},
    }  # fmt: skip
    assert counters == {'urls_fetched': 1}


def test_columns_have_the_names_that_are_asked_for(web: Web) -> None:
    options = UrlRowOptions(url_column='u', bytes_column='jpg', status_column=None)
    (sample,), _ = run(FetchUrls(options, fetch=_LOCAL), [{'u': web.url('/jpeg/')}])
    assert sample.keys() == {'u', 'jpg', PLACE}


@pytest.mark.parametrize(
    ('row', 'message'),
    [
        ({'a': 1}, "column 'url' has no value where a URL is expected"),
        ({'url': None}, "column 'url' has no value where a URL is expected"),
        ({'url': ''}, "column 'url' has an empty text where a URL is expected"),
        ({'url': 5}, "column 'url' has 5 where a URL is expected"),
        ({'url': 'http://h/', 'status': 1}, "it has a column 'status' already"),
        ({'url': 'http://h/', 'content': 1}, "it has a column 'content' already"),
    ],
)
def test_a_row_without_a_url_or_without_room_is_a_bad_record(row: Row, message: str) -> None:
    (bad,), counters = run(FetchUrls(on_error='inline'), [row])
    assert (bad.error_type, bad.element) == ('bad_row', row)
    assert message in bad.message
    assert counters == {'urls_bad_row': 1}


def test_durations_become_seconds(web: Web) -> None:
    options = UrlRowOptions(durations=['duration'])
    rows = [
        {'url': web.url('/video/1'), 'duration': 'PT01H02M03S'},
        {'url': web.url('/video/2'), 'duration': '20 s'},
        {'url': web.url('/video/3')},
    ]
    values, _ = run(FetchUrls(options, fetch=_LOCAL, on_error='inline'), rows)
    found = by_url(values)
    assert found[rows[0]['url']]['duration'] == 3723
    for row in rows[1:]:
        bad = found[row['url']]
        assert (bad.error_type, bad.element) == ('bad_row', row)
        assert "column 'duration'" in bad.message
    assert list(web.seen) == ['/video/1']
    assert [seconds_of(text) for text in ('PT5S', 'PT2M', 'PT1H')] == [5, 120, 3600]


# The five cases of the list of cases, and more: each one sample, or one note that can be given in
# again.


def test_each_row_is_one_sample_or_one_note_with_the_row(web: Web) -> None:
    paths = {
        '/jpeg/': None, '/busy/429/1/0': None, '/hops/2': None, '/slow/0.2': None,
        '/reset/1': None, '/short/1': None,
        '/status/404': 'http_404', '/busy/429/9/0': 'http_429', '/busy/503/9/0': 'http_5xx',
        '/short/': 'short_body', '/hang/': 'timeout', '/loop/': 'redirect', '/html/': 'wrong_type',
        '/reset/': 'connection', '/tagged/noai': 'opted_out', '/bytes/5000000': 'too_large',
        '/empty/': 'empty_body', '/garbage/': 'protocol',
    }  # fmt: skip
    rows = [{'url': web.url(path), 'n': number} for number, path in enumerate(paths)]
    rows += [{'url': 'http://no-such-host.invalid/', 'n': 98}, {'n': 99}]
    fetch = FetchOptions(
        allow_private_hosts=True, retries=1, read_timeout=0.5, accept='image/*', max_bytes='1mb'
    )
    result, counters = run(FetchUrls(fetch=fetch, on_error='dead_letter'), rows)
    samples = [one for one in result if not isinstance(one, BadRecord)]
    bad = [one for one in result if isinstance(one, BadRecord)]
    assert len(result) == len(rows)
    assert {one['url'] for one in samples} == {
        web.url(path) for path, category in paths.items() if category is None
    }
    wanted = {web.url(path): category for path, category in paths.items() if category}
    wanted['http://no-such-host.invalid/'] = 'dns'
    assert {one.place['url']: one.error_type for one in bad if one.place} == wanted
    # Every one is counted, and its element is its row.
    assert sum(counters.values()) == len(rows)
    assert {one.error_type for one in bad} <= FAILURES.keys()
    for one in bad:
        assert one.element == rows[[row['n'] for row in rows].index(one.element['n'])]
    # Given in again, they go the same way.
    again, _ = run(FetchUrls(fetch=fetch, on_error='inline'), [one.element for one in bad])
    assert sorted(one.error_type for one in again) == sorted(one.error_type for one in bad)


def test_the_first_url_that_fails_fails_the_job_and_is_named(web: Web) -> None:
    with pytest.raises(Exception, match=r'/status/404: HTTP 404') as raised:
        run(FetchUrls(fetch=_LOCAL), [{'url': web.url('/status/404')}])
    assert 'RecordError' in str(raised.value) or 'RecordError' in type(raised.value).__name__


def test_batches_are_rows_too_and_notes_pass(web: Web) -> None:
    batch = pa.RecordBatch.from_pylist(
        [{'url': web.url(f'/jpeg/{number}'), 'n': number} for number in range(200)]
    )
    note = BadRecord('csv', 'no row', {'file': 'a.csv', 'line': 1})
    values, counters = run(FetchUrls(fetch=_LOCAL, on_error='inline'), [batch, note])
    assert note in values
    assert sorted(one['n'] for one in values if one != note) == list(range(200))
    assert counters == {'urls_fetched': 200}


def test_samples_stay_in_their_windows(web: Web) -> None:
    rows = [
        TimestampedValue({'url': web.url(f'/slow/{0.2 - 0.02 * n}/{n}'), 'n': n}, 10 * n)
        for n in range(6)
    ]
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = (
            pipeline
            | beam.Create(rows)
            | beam.WindowInto(FixedWindows(20))
            | FetchUrls(fetch=_LOCAL)
            | beam.Map(_keep_timed)
        )
        _kept.clear()
    found = sorted(_kept)
    assert found == [(n, 10.0 * n, 20.0 * (n // 2)) for n in range(6)]


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(OptionError, match='on_error='):
        FetchUrls(on_error='ignore')
    with pytest.raises(OptionError, match='columns of URL, bytes and status must differ'):
        UrlRowOptions(bytes_column='url')
    with pytest.raises(OptionError, match='is no name of a column'):
        UrlRowOptions(url_column='')
    with pytest.raises(OptionError, match="table_format='xls' is unknown: expected one of auto"):
        ReadUrls(['a'], table_format='xls')


def test_without_the_extra_the_transforms_say_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, 'pycurl', None)
    words = r"fetching URLs needs pycurl, .*pip install 'beam-mds\[urls\]'"
    with pytest.raises(MissingExtraError, match=words):
        FetchUrls()
    with pytest.raises(MissingExtraError, match=words):
        ReadUrls(['a'])


def test_without_the_extra_the_command_line_is_there() -> None:
    code = (
        'import sys; sys.modules["pycurl"] = None; from beam_mds.cli import main; '
        'main(["convert", "urls", "--help"])'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '--allow_private_hosts' in done.stdout


# Bundles that fail.


def test_a_bundle_that_is_tried_again_gives_its_own_rows_once(web: Web) -> None:
    step = _Fetch(UrlRowOptions(), _LOCAL, 'inline')
    step.setup()
    try:
        step.start_bundle()
        first = [{'url': web.url(path)} for path in ('/hang/', '/jpeg/first', '/slow/0.3')]
        assert list(step.process(first, 0, None)) == []
        while not web.seen['/jpeg/first'] or not step._fetcher.client.memory.held:
            time.sleep(0.01)
        # The bundle breaks off; the next one on the same instance is the retry.
        step.start_bundle()
        second = [{'url': web.url(f'/jpeg/{number}')} for number in range(3)]
        found = [*step.process(second, 0, None), *step.finish_bundle()]
        assert sorted(one.value['url'] for one in found) == [row['url'] for row in second]
        assert_nothing_is_held(step._fetcher)
    finally:
        step.teardown()
    assert not fetching._shared


def test_a_step_that_ends_in_the_middle_of_a_bundle_leaves_nothing_behind(web: Web) -> None:
    step = _Fetch(UrlRowOptions(), _LOCAL, 'inline')
    step.setup()
    step.start_bundle()
    list(step.process([{'url': web.url('/hang/')}], 0, None))
    start = time.monotonic()
    step.teardown()
    assert time.monotonic() - start < 5
    assert not fetching._shared


def test_worker_processes_fetch_each_url_once(web: Web, tmp_path: Path) -> None:
    table = tmp_path / 'list.txt'
    table.write_text('\n'.join(web.url(f'/jpeg/{number}') for number in range(300)))
    runner, flags = runner_of('processes')
    out = tmp_path / 'out'
    with beam.Pipeline(runner=runner, options=PipelineOptions(flags)) as pipeline:
        _ = (
            pipeline
            | ReadUrls([table], fetch=_LOCAL, on_error='inline')
            | WriteToMDS(out, {'url': 'str', 'content': 'bytes', 'status': 'int'})
        )
    samples = list(read_samples(out))
    assert {sample['content'] for sample in samples} == {JPEG}
    assert sorted(sample['url'] for sample in samples) == sorted(
        web.url(f'/jpeg/{number}') for number in range(300)
    )
    assert set(web.seen.values()) == {1}


# Tables.


def _tables(folder: Path, web: Web) -> Path:
    folder.mkdir()
    (folder / 'a.csv').write_text(
        f'url,n\n{web.url("/jpeg/csv")},1\n"{web.url("/jpeg/quoted")}",2\n'
    )
    (folder / 'b.tsv').write_text(f'url\tn\n{web.url("/jpeg/tsv")}\t3\n')
    (folder / 'c.txt').write_bytes(b'\xef\xbb\xbf%s\r\n\n' % web.url('/jpeg/txt').encode())
    (folder / 'd.jsonl').write_text(json.dumps({'url': web.url('/jpeg/jsonl'), 'n': 5}))
    (folder / 'e.txt.gz').write_bytes(gzip.compress(web.url('/jpeg/gz').encode()))
    pq.write_table(pa.table({'url': [web.url('/jpeg/parquet')], 'n': [6]}), folder / 'f.parquet')
    return folder


def test_tables_of_all_formats_are_read(web: Web, tmp_path: Path) -> None:
    folder = _tables(tmp_path / 'tables', web)
    values, counters = run(ReadUrls([folder], fetch=_LOCAL))
    names = ['csv', 'quoted', 'tsv', 'txt', 'jsonl', 'gz', 'parquet']
    assert by_url(values).keys() == {web.url(f'/jpeg/{name}') for name in names}
    assert {value[PLACE]['file'].rpartition('/')[2][0] for value in values} == set('abcdef')
    assert counters == {'records_read': 7, 'urls_fetched': 7}


def test_without_beam_the_same_comes_in_the_order_of_the_tables(web: Web, tmp_path: Path) -> None:
    folder = _tables(tmp_path / 'tables', web)
    source = ReadUrls([folder], fetch=_LOCAL)
    alone = list(source.iterate())
    assert [value['url'].rpartition('/')[2] for value in alone] == [
        'csv', 'quoted', 'tsv', 'txt', 'jsonl', 'gz', 'parquet',
    ]  # fmt: skip
    assert by_url(alone) == by_url(run(source)[0])


def test_lines_that_are_no_text_are_bad_records(web: Web, tmp_path: Path) -> None:
    path = tmp_path / 'a.txt'
    path.write_bytes(b'\xff\xfe\n' + web.url('/jpeg/').encode())
    bad, sample = ReadUrls([path], fetch=_LOCAL).iterate()
    assert (bad.error_type, bad.place['line']) == ('encoding', 1)
    assert sample['content'] == JPEG


def test_fields_of_paths_are_columns(web: Web, tmp_path: Path) -> None:
    for split in ('train', 'val'):
        (tmp_path / split).mkdir()
        (tmp_path / split / 'a.txt').write_text(web.url(f'/jpeg/{split}'))
    values, _ = run(ReadUrls([tmp_path], fetch=_LOCAL, split='{split}/*.txt'))
    assert {value['url'].rpartition('/')[2]: value['split'] for value in values} == {
        'train': 'train', 'val': 'val',
    }  # fmt: skip


def test_options_of_tables_are_passed_on(web: Web, tmp_path: Path) -> None:
    path = tmp_path / 'cc12m.tsv'
    path.write_text(f'{web.url("/jpeg/")}\tsaid "so\n')
    options = {'csv_header': ['url', 'caption'], 'csv_quote': None}
    (sample,) = ReadUrls([path], fetch=_LOCAL, table_options=options).iterate()
    assert sample['caption'] == 'said "so'


# Duplicates and what is there already.


@pytest.mark.parametrize('way', ['beam', 'alone'])
def test_a_url_is_fetched_once_for_the_first_row_that_has_it(
    web: Web, tmp_path: Path, way: str
) -> None:
    a, b = web.url('/jpeg/a'), web.url('/jpeg/b')
    (tmp_path / '1.csv').write_text(f'url,n\n{a},1\n{b},2\n{a},3\n,4\n,5\n')
    (tmp_path / '2.csv').write_text(f'url,n\n{a},6\n{b},7\nx,y,z\n')
    source = ReadUrls([tmp_path], fetch=_LOCAL, deduplicate=True, on_error='inline')
    values, counters = run(source) if way == 'beam' else (list(source.iterate()), {})
    assert [value['n'] for value in values if isinstance(value, dict)] in (['1', '2'], ['2', '1'])
    # Rows without a URL, and what is no row, are nobody's doubles.
    assert sorted(value.error_type for value in values if isinstance(value, BadRecord)) == [
        'bad_row', 'bad_row', 'csv',
    ]  # fmt: skip
    assert set(web.seen.values()) == {1}
    if way == 'beam':
        assert counters['duplicate_urls_skipped'] == 3
        # inputs = samples + notes + duplicates
        assert counters['records_read'] + counters['records_bad'] == 2 + 3 + 3


def test_urls_of_the_dataset_are_not_fetched_again(web: Web, tmp_path: Path) -> None:
    urls = [web.url(f'/jpeg/{number}') for number in range(10)]
    table, out = tmp_path / 'a.txt', tmp_path / 'out'

    def write(some: list[str]) -> dict[str, int]:
        table.write_text('\n'.join(some))
        source = ReadUrls([table], fetch=_LOCAL, skip_existing=out, existing_column='link')
        pipeline = beam.Pipeline(runner=FnApiRunner())
        _ = (
            pipeline
            | source
            | beam.Map(lambda sample: {'link': sample['url'], 'content': sample['content']})
            | WriteToMDS(out, {'link': 'str', 'content': 'bytes'}, if_exists='append')
        )
        result = pipeline.run()
        result.wait_until_finish()
        return counters_of(result)

    assert 'existing_urls_skipped' not in write(urls[:4])  # there is no dataset yet
    assert write(urls)['existing_urls_skipped'] == 4
    assert sorted(sample['link'] for sample in read_samples(out)) == urls
    assert set(web.seen.values()) == {1}


# Errors of an earlier run.


def test_the_rows_of_an_earlier_runs_errors_are_fetched_again(web: Web, tmp_path: Path) -> None:
    table, errors = tmp_path / 'a.csv', tmp_path / 'errors.jsonl'
    urls = [web.url(path) for path in ('/jpeg/1', '/busy/503/1/0', '/status/404')]
    table.write_text('url,n\n' + ''.join(f'{url},{n}\n' for n, url in enumerate(urls)) + 'x,y,z\n')
    fetch = FetchOptions(allow_private_hosts=True, retries=0)

    def write(source: ReadUrls, out: str, errors: Path) -> list[dict[str, Any]]:
        columns = {'url': 'str', 'n': 'str', 'content': 'bytes', 'status': 'int'}
        with beam.Pipeline(runner=FnApiRunner()) as pipeline:
            _ = (
                pipeline
                | source
                | WriteToMDS(tmp_path / out, columns).with_exception_handling(errors_output=errors)
            )
        return sorted(read_samples(tmp_path / out), key=lambda sample: str(sample['url']))

    first = write(ReadUrls([table], fetch=fetch, on_error='inline'), 'one', errors)
    assert [sample['n'] for sample in first] == ['0']
    again = ReadUrls([errors], fetch=fetch, table_format='errors', on_error='inline')
    second = write(again, 'two', tmp_path / 'again.jsonl')
    assert second == [{'url': urls[1], 'n': '1', 'content': JPEG, 'status': 200}]
    left = [json.loads(line) for line in (tmp_path / 'again.jsonl').read_text().splitlines()]
    # What was no row stays an error; places are those of the table.
    assert sorted(one['error_type'] for one in left) == ['http_404', 'no_element']
    (gone,) = (one for one in left if one['error_type'] == 'http_404')
    assert gone['place'] == {'file': str(table), 'line': 4, 'url': urls[2]}
    assert gone['element'] == {'url': urls[2], 'n': '2'}


def test_a_sample_that_could_not_be_written_is_fetched_again_from_its_row(
    web: Web, tmp_path: Path
) -> None:
    url = web.url('/unsaid/')
    table, errors = tmp_path / 'a.csv', tmp_path / 'errors.jsonl'
    table.write_text(f'url,n\n{url},one\n')
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = (
            pipeline
            | ReadUrls([table], fetch=_LOCAL)
            | beam.Map(lambda sample: sample)
            | WriteToMDS(
                tmp_path / 'out', {'url': 'str', 'n': 'int'}, extra='ignore', allow_empty=True
            ).with_exception_handling(errors_output=errors)
        )
    letter = json.loads(errors.read_text())
    assert (letter['stage'], letter['column']) == ('encode', 'n')
    assert letter['place'] == {'file': str(table), 'line': 2, 'url': url}
    (sample,) = ReadUrls([errors], fetch=_LOCAL, table_format='errors').iterate()
    assert {name: sample[name] for name in ('url', 'n', 'content', 'status')} == {
        'url': url, 'n': 'one', 'content': PNG, 'status': 200,
    }  # fmt: skip
