"""`beam-mds verify`: what is wrong with datasets."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from beam_mds.checking.findings import KINDS, Finding
from beam_mds.cli.console import (
    DONE,
    FAILED,
    FINDINGS,
    add_command,
    add_json,
    add_path,
    counted,
    print_findings,
    print_json,
    progress,
)
from beam_mds.errors import OptionError

_ABOUT = """
check datasets: index, files, hashes, headers, samples

Prints one line for each thing that is wrong: its kind, the file, and what it is. The exit code is 1
if anything is, and 3 if all that is wrong is that files could not be read. Without --deep, only the
sizes in the samples are checked: a flipped byte inside a value is seen by the hashes, in the index
or in the names that WriteToMDS gives, or not at all.
"""

_EXAMPLES = """
beam-mds verify gs://bucket/dataset
beam-mds verify --deep --json out/*/ > findings.json
beam-mds verify gs://b/dataset --findings gs://b/tmp/f.jsonl -- --runner=DataflowRunner --project=p
"""


class _Summary(NamedTuple):
    """What was checked; None where the runner does not tell."""

    datasets: int | None
    shards: int | None
    samples: int | None
    bytes: int | None


def add(commands: Any) -> None:
    """Adds the sub-command."""
    kinds = '\n'.join(f'  {kind:12}{meaning}' for kind, meaning in KINDS.items())
    about = f'{_ABOUT.strip()}\n\nkinds of findings:\n{kinds}'
    parser = add_command(commands, 'verify', _run, about, _EXAMPLES)
    add_path(parser, 'folder of a dataset, its index.json, or a glob', nargs='+')
    parser.add_argument('--deep', action='store_true', help='decode every sample (but pkl) too')
    parser.add_argument(
        '--threads', type=int, metavar='N', help='shards checked side by side (default: 4)'
    )
    parser.add_argument(
        '--findings',
        metavar='FILE',
        help='where a Beam job puts what it finds, as JSON lines; for workers elsewhere',
    )
    add_json(parser)


class _Findings(list[Finding]):
    """All findings; printed as they come, unless they are to be JSON in the end."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self._printed = not args.json

    def add(self, findings: Iterable[Finding]) -> None:
        """Takes more of them."""
        self.extend(findings)
        if self._printed:
            print_findings(findings)


def _run(args: argparse.Namespace) -> int:
    findings = _Findings(args)
    summary = (_run_job if args.beam_options else _run_here)(args, findings)
    if args.json:
        print_json(
            {
                'findings': [found._asdict() for found in findings],
                'summary': {**summary._asdict(), 'findings': len(findings)},
            }
        )
    else:
        print(_told(summary, findings))
    if not findings:
        return DONE
    return FAILED if {found.kind for found in findings} == {'unreadable'} else FINDINGS


def _run_here(args: argparse.Namespace, findings: _Findings) -> _Summary:
    from beam_mds.checking.inventory import list_dataset
    from beam_mds.verify import THREADS, check_all, find_datasets

    if args.findings is not None:
        raise OptionError('--findings is for a Beam job: give Beam options after --, or leave it')
    threads = THREADS if args.threads is None else args.threads
    folders = find_datasets(args.path)
    shards = samples = size = 0
    for folder in folders:
        listed = list_dataset(folder, threads)
        findings.add(listed.findings)
        reports = check_all(listed.tasks, deep=args.deep, threads=threads)
        for report in progress(reports, 'shards', len(listed.tasks)):
            findings.add(report.findings)
            shards += 1
            samples += report.samples
            size += report.bytes
    return _Summary(len(folders), shards, samples, size)


def _run_job(args: argparse.Namespace, findings: _Findings) -> _Summary:
    import apache_beam as beam

    from beam_mds.cli.jobs import run_for_records
    from beam_mds.indexes import natural_key
    from beam_mds.verify import VerifyMDS

    if args.threads is not None:
        raise OptionError('--threads is for a check at once: a Beam job has its own workers')
    verify = VerifyMDS(args.path, deep=args.deep)
    records, counters = run_for_records(
        lambda pipeline: pipeline | verify | beam.Map(list),
        args.beam_options,
        args.findings,
        '--findings',
    )
    found = (Finding(*record) for record in records)
    findings.add(sorted(found, key=lambda one: (natural_key(one.file), *one[1:])))
    return _Summary(*(counters.get(f'{name}_checked') for name in _Summary._fields))


def _told(summary: _Summary, findings: Sequence[Finding]) -> str:
    counts = Counter(found.kind for found in findings)
    kinds = ', '.join(f'{counts[kind]} {kind}' for kind in KINDS if kind in counts)
    checked = ', '.join(map(counted, summary, summary._fields))
    if not findings:
        return f'nothing wrong; checked: {checked}'
    return f'{counted(len(findings), "findings")} ({kinds}); checked: {checked}'
