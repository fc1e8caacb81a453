"""Texts -> tokens -> MDS: `pipelines.text_tokens` against the tokenizer alone.

`python -m benchmarks.text_tokens`, or `python -m benchmarks.run --cases text_tokens`. The texts are
the standard library's sources in pieces as long as the Pile's documents, several times over; the
tokenizer is trained on them. *ids* is what anybody needs who calls the library: `encode_batch_fast`
of texts that are in memory, and the ids of each as a list. *encode only* leaves the ids in the
library's own objects. Ours reads JSON lines, packs, and writes a dataset.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import shutil
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from benchmarks import data, machine, ours, process, report, rounds
from benchmarks.dataset import Written, count
from benchmarks.rounds import Job
from pipelines import conversion

TITLE = 'tokens of 2,048'

# Least share of the tokenizer's own rate (issue 6).
BAR = 0.9

_EOS = '<|endoftext|>'

# Bytes of all texts at scale 1, characters of one at most (the Pile's mean), and files.
_BYTES, _PIECE, _FILES = 160 << 20, 6000, 8

_SIZE, _VOCABULARY = 2048, 32_000

# Texts of a call of the library: 170 of this length are what ours takes at once.
_BATCH = 1000

_ALONE = {'ids': 'tokenizer, ids', 'encode': 'tokenizer, encode only'}


def ensure(folder: Path, size: int) -> Path:
    """Makes the texts and the tokenizer unless they are there."""
    target = folder / f'text-tokens-v1-{size}'
    if target.is_dir():
        return target
    staging = folder / f'{target.name}-staging'
    shutil.rmtree(staging, ignore_errors=True)
    (staging / 'texts').mkdir(parents=True)
    root = Path(sysconfig.get_paths()['stdlib'])
    texts = [
        text[at : at + _PIECE]
        for path in sorted(root.rglob('*.py'))
        if 'site-packages' not in path.parts
        for text in [path.read_text(errors='ignore')]
        for at in range(0, len(text), _PIECE)
    ]
    rng = random.Random(3)
    lines = [json.dumps({'text': text}) + '\n' for text in texts]
    left = size
    chosen = []
    while left > 0:
        rng.shuffle(lines)
        for line in lines:
            chosen.append(line)
            left -= len(line)
            if left <= 0:
                break
    for number in range(_FILES):
        path = staging / 'texts' / f'{number:02}.jsonl'
        path.write_text(''.join(chosen[number::_FILES]))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=_VOCABULARY,
            special_tokens=[_EOS],
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    tokenizer.save(str(staging / 'tokenizer.json'))
    staging.rename(target)
    return target


def jobs(folder: Path, scale: float, options: Sequence[str]) -> list[Job]:
    """The runs of one round."""
    source = ensure(folder, round(_BYTES * scale))
    bar = BAR if scale >= 1 else None  # at less, the start of a pipeline counts too much
    ways = [*_ALONE, 'arrival', 'shuffled']
    return [
        Job(
            functools.partial(_once, way, source, folder / 'out', options),
            report.Series(TITLE, _ALONE.get(way, way), None, None if way in _ALONE else bar),
        )
        for way in ways
    ]


def table(series: Sequence[report.Series]) -> str:
    """Each way beside the tokenizer alone."""
    (base,) = [one.seconds for one in series if one.name == _ALONE['ids']]
    (bare,) = [one.seconds for one in series if one.name == _ALONE['encode']]
    base_cpu = next(_cpu(one) for one in series if one.name == _ALONE['ids'])
    rows = []
    for one in series:
        row = [one.workload, one.name, one.compression or 'raw']
        if one.failure or not one.runs:
            rows.append([*row, 'FAILED', *['-'] * 7])
            continue
        share = report.ratio_of_medians(base, one.seconds)
        cpu = _cpu(one)
        tokens = one.runs[0].written.samples * _SIZE
        rows.append(
            [
                *row,
                report.spread(one.seconds),
                f'{cpu:.1f}',
                f'{tokens / statistics.median(one.seconds) / 1e6:.2f}',
                f'{share:.2f}',
                f'{report.ratio_of_medians(bare, one.seconds):.2f}',
                f'{base_cpu / cpu:.2f}',
                report.verdict(share, one.bar),
                report.megabytes(one.peak_bytes),
            ]
        )
    head = ['workload', 'way', 'compression', 'seconds: median (min-max)', 'CPU s', 'M tokens/s']
    return report.markdown([*head, 'x ids', 'x encode only', 'x ids, CPU', 'bar', 'peak MB'], rows)


def _cpu(series: report.Series) -> float:
    """Seconds of all cores while the clock ran, which a busy machine hardly changes."""
    return statistics.median(run.cpu_seconds for run in series.runs)


def _once(
    way: str, source: Path, folder: Path, options: Sequence[str], watch_memory: bool
) -> tuple[report.Measurement, int | None]:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix='run-', dir=folder) as parent:
        machine.settle()
        watch = machine.Watch.start()
        out = Path(parent, 'dataset')
        command = [sys.executable, '-m', 'benchmarks.text_tokens', f'--way={way}']
        command += [f'--source={source}', f'--out={out}', *options]
        done = process.run(command, watch_memory=watch_memory)
        others = watch.others(done.cpu_seconds)
        samples = done.report['tokens'] // _SIZE
        written = count(out, samples) if way not in _ALONE else Written(samples, 0, 0, 0)
    measurement = report.Measurement(
        done.report['seconds'], done.wall_seconds, done.report['cpu'], others, written
    )
    return measurement, done.peak_bytes


def _alone(way: str, source: Path) -> dict[str, float]:
    """The tokenizer alone."""
    tokenizer = Tokenizer.from_file(str(source / 'tokenizer.json'))
    texts = [
        json.loads(line)['text']
        for path in sorted((source / 'texts').iterdir())
        for line in path.read_text().splitlines()
    ]
    start, cpu = time.perf_counter(), time.process_time()
    tokens = len(texts)  # each has an end
    for at in range(0, len(texts), _BATCH):
        found = tokenizer.encode_batch_fast(texts[at : at + _BATCH], add_special_tokens=False)
        if way == 'ids':
            ids = [one.ids for one in found]
            tokens += sum(map(len, ids))
        else:
            tokens += sum(map(len, found))
    return _measured(start, cpu, tokens)


def _ours(order: str, source: Path, out: Path, options: Sequence[str]) -> dict[str, float]:
    """The whole conversion."""
    start, cpu = time.perf_counter(), time.process_time()
    _, result = conversion.run(
        'text_tokens',
        [
            f'--input={source / "texts"}',
            f'--tokenizer={source / "tokenizer.json"}',
            f'--concat_tokens={_SIZE}',
            f'--eos_text={_EOS}',
            f'--output={out}',
            f'--order={order}',
            *options,
        ],
    )
    result.wait_until_finish()
    measured = _measured(start, cpu, 0)
    found = result.metrics().query()['counters']
    (tokens,) = [one.committed for one in found if one.key.metric.name == 'tokens_read']
    return {**measured, 'tokens': tokens}


def _measured(start: float, cpu: float, tokens: int) -> dict[str, float]:
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    return {'seconds': seconds, 'cpu': used, 'tokens': tokens}


def main() -> int:
    """Runs side by side and prints a table; with --way, one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--scale', type=float, default=1.0)
    parser.add_argument('--data', type=Path, default=data.default_folder())
    parser.add_argument('--max-others', type=float, default=1.0)
    parser.add_argument('--runner', default='fnapi', help='fnapi, prism, or a name Beam knows')
    parser.add_argument('--prism_location')
    parser.add_argument('--way', help='of one run')
    parser.add_argument('--source', type=Path, help='of one run')
    parser.add_argument('--out', type=Path, help='of one run')
    args, rest = parser.parse_known_args()
    rest += ours.runner_options(args.runner, args.prism_location)
    if args.way:
        alone = args.way in _ALONE
        done = (
            _alone(args.way, args.source) if alone else _ours(args.way, args.source, args.out, rest)
        )
        print(json.dumps(done))
        return 0
    process.end_children_when_terminated()
    runs = jobs(args.data.absolute(), args.scale, rest)
    series = rounds.run(runs, [True] + [False] * args.runs, args.max_others)
    print(table(series), report.disturbance(series), sep='\n\n')
    return int(any(one.failure for one in series))


if __name__ == '__main__':
    sys.exit(main())
