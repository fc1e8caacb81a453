"""MergeMDSIndex in pipelines: alone, after writes, on other runners."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.display import DisplayData
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_mds import (
    EmptyInputError,
    MergeError,
    MergeMDSIndex,
    OptionError,
    StorageError,
    WriteToMDS,
    merge_indexes,
    read_samples,
    storage,
)
from tests.helpers.merging import dataset, files, listed, texts
from tests.helpers.runners import runner_of
from tests.helpers.writing import COLUMNS, SEEN, read, run, samples, see, see_with_file


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


def failure(build: Any, kind: type[Exception]) -> str:
    """The error that a pipeline fails with."""
    with pytest.raises(kind) as caught:
        run(build)
    return str(caught.value)


def test_applied_to_a_pipeline_it_merges_what_is_below_the_folder(root: str) -> None:
    for part in ('a/10', 'a/9', 'b'):
        dataset(f'{root}/{part}', [part])

    for _ in range(2):
        run(lambda pipeline: pipeline | MergeMDSIndex(f'{root}/', expect=3) | beam.Map(see))

    assert [f'{root}/index.json'] * 2 == SEEN
    assert texts(root) == ['a/9', 'a/10', 'b']


def test_applied_to_a_pipeline_with_parts_it_merges_those(tmp_path: Path) -> None:
    for part in ('a', 'b', 'c'):
        dataset(tmp_path / part, [part])
    merge_indexes(tmp_path)

    run(
        lambda pipeline: (
            pipeline
            | MergeMDSIndex(tmp_path, [tmp_path / 'c', f'{tmp_path}/[a]'], if_exists='overwrite')
        )
    )  # fmt: skip

    assert texts(tmp_path) == ['a', 'c']


def test_applied_to_paths_it_waits_for_the_writes_that_give_them(tmp_path: Path) -> None:
    rows = samples(300)

    def build(pipeline: beam.Pipeline) -> Any:
        written = [
            pipeline
            | f'Create{part}' >> beam.Create(rows[part::12])
            | f'Write{part}' >> WriteToMDS(tmp_path / f'part-{part}', COLUMNS, size_limit=1000)
            for part in range(12)
        ]
        merged = (
            [result.index for result in written]
            | beam.Flatten()
            | MergeMDSIndex(tmp_path, expect=12)
        )
        return merged | beam.Map(see_with_file, str(tmp_path / 'index.json'))

    run(build)

    assert read(tmp_path) == rows
    index = (tmp_path / 'index.json').read_bytes()
    assert [(f'{tmp_path}/index.json', index)] == SEEN
    folders = [name.partition('/')[0] for name in listed(tmp_path)]
    assert list(dict.fromkeys(folders)) == [f'part-{part}' for part in range(12)]
    assert not merge_indexes(tmp_path).changed


def test_splits_of_several_writes_are_merged_once_each(tmp_path: Path) -> None:
    rows = samples(200, names=3)

    def build(pipeline: beam.Pipeline) -> Any:
        written = [
            pipeline
            | f'Create{part}' >> beam.Create(rows[part::2])
            | f'Write{part}' >> WriteToMDS(tmp_path / f'{part}', COLUMNS, split='name')
            for part in range(2)
        ]
        return [result.index for result in written] | beam.Flatten() | MergeMDSIndex(tmp_path)

    run(build)

    assert read(tmp_path) == rows
    assert len(listed(tmp_path)) == 6


def test_elements_may_be_globs_and_in_any_window(tmp_path: Path) -> None:
    for part in ('a-1', 'a-2', 'b'):
        dataset(tmp_path / part, [part])
    run(
        lambda pipeline: (
            pipeline
            | beam.Create([f'{tmp_path}/a-*', f'{tmp_path}/b/index.json'])
            | beam.Map(lambda path: TimestampedValue(path, len(path)))
            | beam.WindowInto(FixedWindows(1))
            | MergeMDSIndex(tmp_path)
        )
    )
    assert texts(tmp_path) == ['a-1', 'a-2', 'b']


def test_a_missing_part_fails_the_job_and_is_named(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])

    def build(pipeline: beam.Pipeline) -> Any:
        return (
            pipeline | beam.Create([f'{tmp_path}/a']) | MergeMDSIndex(tmp_path, expect=['a', 'b'])
        )

    message = failure(build, MergeError)
    assert f'1 of 2 expected parts have no index.json, so none was written in {tmp_path}' in message
    assert not (tmp_path / 'index.json').exists()


def test_no_paths_at_all_fail_the_job(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])  # is not what was asked for
    message = failure(
        lambda pipeline: pipeline | beam.Create([], str) | MergeMDSIndex(tmp_path), EmptyInputError
    )
    assert 'there is no dataset to merge: the PCollection of their paths is empty' in message
    assert not (tmp_path / 'index.json').exists()


def test_a_path_that_comes_twice_fails_the_job(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])
    given = [f'{tmp_path}/a', f'{tmp_path}/a/index.json']
    message = failure(
        lambda pipeline: pipeline | beam.Create(given) | MergeMDSIndex(tmp_path), MergeError
    )
    assert f'{tmp_path}/a: given twice' in message


def test_copies_are_spread_over_workers_and_are_there_before_the_index(
    tmp_path: Path, gcs_bucket: str
) -> None:
    for part in ('a', 'b'):
        dataset(tmp_path / part, [f'{part}, 0'], [f'{part}, 1'])
    parts = [f'{tmp_path}/a', f'{tmp_path}/b']

    def build(pipeline: beam.Pipeline) -> Any:
        return pipeline | MergeMDSIndex(f'{gcs_bucket}/out', parts, copy=True) | beam.Map(see)

    def build_from_paths(pipeline: beam.Pipeline) -> Any:
        paths = pipeline | beam.Create(parts)
        return paths | MergeMDSIndex(f'{gcs_bucket}/out', copy=True) | beam.Map(see)

    for step in (build, build, build_from_paths, build_from_paths):
        run(step, '--direct_num_workers=2')

    assert [f'{gcs_bucket}/out/index.json'] * 4 == SEEN
    assert texts(f'{gcs_bucket}/out') == ['a, 0', 'a, 1', 'b, 0', 'b, 1']
    assert sorted(files(f'{gcs_bucket}/out')) == sorted(
        [*listed(f'{gcs_bucket}/out'), 'index.json']
    )


def test_a_copy_that_fails_leaves_no_index(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])
    (tmp_path / 'out' / 'a').mkdir(parents=True)
    (tmp_path / 'out' / 'a' / 'shard.00000.mds').write_bytes(b'mine')
    message = failure(
        lambda pipeline: pipeline | MergeMDSIndex(tmp_path / 'out', tmp_path / 'a', copy=True),
        StorageError,
    )
    assert 'is there and is no copy of' in message
    assert sorted(files(tmp_path / 'out')) == ['a/shard.00000.mds']


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['processes', 'portable', 'prism'])
def test_it_works_on_other_runners(kind: str, tmp_path: Path) -> None:
    runner, flags = runner_of(kind)
    for part in ('from/a', 'from/b'):
        dataset(tmp_path / part, [part])

    def build(pipeline: beam.Pipeline) -> None:
        written = pipeline | beam.Create([{'text': 'new'}]) | WriteToMDS(
            tmp_path / 'out' / 'c', {'text': 'str'}
        )  # fmt: skip
        others = pipeline | 'Others' >> beam.Create([f'{tmp_path}/from/*'])
        _ = (
            (written.index, others)
            | beam.Flatten()
            | MergeMDSIndex(tmp_path / 'out', copy=True, expect=3)
            | beam.Map(check, sorted(['from/a', 'from/b', 'new']))
        )

    run(build, *flags, runner=runner)

    assert sorted(texts(tmp_path / 'out')) == ['from/a', 'from/b', 'new']


def check(path: str, wanted: list[str]) -> None:
    found = sorted(sample['text'] for sample in read_samples(path.removesuffix('/index.json')))
    assert found == wanted


def test_nothing_is_read_before_the_pipeline_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        pytest.fail('storage was asked')

    for name in ('find', 'list_folder', 'look_up', 'match', 'read', 'Reader'):
        monkeypatch.setattr(storage, name, fail)
    pipeline = beam.Pipeline(runner='FnApiRunner')
    _ = pipeline | 'All' >> MergeMDSIndex(tmp_path)
    _ = pipeline | 'Some' >> MergeMDSIndex(tmp_path, [f'{tmp_path}/*'], copy=True)
    _ = pipeline | beam.Create(['a']) | 'Given' >> MergeMDSIndex(tmp_path, copy=True)


def test_options_are_checked_when_the_transform_is_made(tmp_path: Path) -> None:
    options: Iterable[dict[str, Any]] = (
        {'expect': 0}, {'if_exists': 'append'}, {'copy': 1}, {'parts': ['/elsewhere']},
    )  # fmt: skip
    for given in options:
        with pytest.raises(OptionError):
            MergeMDSIndex(tmp_path, **given)


def test_parts_in_two_ways_or_an_unbounded_input_are_refused_when_the_pipeline_is_built(
    tmp_path: Path,
) -> None:
    paths = beam.Pipeline(runner='FnApiRunner') | beam.Create(['a'])
    with pytest.raises(OptionError, match='parts were given and come as a PCollection: one of'):
        _ = paths | MergeMDSIndex(tmp_path, [tmp_path / 'a'])
    paths.is_bounded = False
    with pytest.raises(OptionError, match='merges a bounded PCollection; this one is not'):
        _ = paths | 'Unbounded' >> MergeMDSIndex(tmp_path)


def test_display_data_has_every_option(tmp_path: Path) -> None:
    sink = MergeMDSIndex(
        tmp_path, [tmp_path / 'a', '/b'], expect=2, if_exists='overwrite', copy=True
    )
    shown = {item.key: item.value for item in DisplayData.create_from(sink).items}
    assert shown == {
        'out': str(tmp_path),
        'parts': f'{tmp_path}/a, /b',
        'expect': '2',
        'if_exists': 'overwrite',
        'copy': True,
    }


def test_the_result_is_a_collection_of_str(tmp_path: Path) -> None:
    merged = beam.Pipeline(runner='FnApiRunner') | MergeMDSIndex(tmp_path)
    assert merged.element_type is str
