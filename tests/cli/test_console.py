from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import struct
import sys
import termios
from collections.abc import Iterator

import pytest

from beam_mds.cli import console
from beam_mds.cli.console import bytes_text, print_json, print_table, progress


def shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, items: Iterator[str]) -> str:
    """What stderr gets while it is a terminal and the items pass."""
    other, this = os.openpty()
    os.set_blocking(other, False)
    fcntl.ioctl(this, termios.TIOCSWINSZ, struct.pack('4H', 24, 80, 0, 0))
    with open(this, 'w', buffering=1) as stderr, monkeypatch.context() as patch:
        patch.setattr(sys, 'stderr', stderr)
        assert list(items) == ['a', 'b', 'c']
        shown = os.read(other, 1 << 16).decode()
    os.close(other)
    return shown


def test_progress_on_a_terminal_is_a_bar_that_goes_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = shown_on_a_terminal(monkeypatch, progress(iter('abc'), 'shards', total=3))
    assert '0/3 [' in shown
    assert ' shards/s' in shown
    # Overwritten in the end, and the next text takes its line.
    assert shown.rpartition('\r')[0].rpartition('\r')[2].strip() == ''
    assert '\n' not in shown
    assert capsys.readouterr() == ('', '')


def test_progress_on_a_terminal_needs_no_total(monkeypatch: pytest.MonkeyPatch) -> None:
    assert '0 shards [' in shown_on_a_terminal(monkeypatch, progress(iter('abc'), 'shards'))


def test_progress_elsewhere_is_lines_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(progress(range(1500), 'shards', total=1500)) == list(range(1500))
    assert capsys.readouterr() == ('', '')  # it took no time
    now = iter(range(0, 10_000, 4))  # seconds
    monkeypatch.setattr(console.time, 'monotonic', lambda: next(now))
    list(progress(range(12), 'shards', total=1200))
    list(progress(range(4), 'samples'))
    out, err = capsys.readouterr()
    assert out == ''
    counts = ['3 of 1,200', '6 of 1,200', '9 of 1,200', '12 of 1,200']
    assert err == ''.join(f'{count} shards\n' for count in counts) + '3 samples\n'


def test_items_are_passed_on_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[int] = []
    found = progress((asked.append(number) or number for number in range(3)), 'shards')
    next(found)
    assert asked == [0]


def test_a_table_is_aligned_by_the_places_that_its_cells_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(
        [
            ['name', 'n', 'text'],
            ['世Ａ', '1', 'two\nlines'],
            ['e\u0301', '1,000', ''],
            ['\x1b', '', 'x'],
            ['', '2', ''],
        ],
        right={1},
    )
    assert capsys.readouterr().out == (
        'name      n  text\n'
        '世Ａ      1  two\n'
        '             lines\n'
        'e\u0301     1,000\n'
        '\\x1b         x\n'
        '          2\n'
    )


def test_a_table_without_rows_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([])
    assert capsys.readouterr().out == ''


def test_json_is_one_document_that_no_terminal_acts_on(capsys: pytest.CaptureFixture[str]) -> None:
    value = {'ä': ['\x1b\x7f\x9b\u202e\ud800\n', 1, None], 'b': {}}
    print_json(value)
    out = capsys.readouterr().out
    assert json.loads(out) == value
    assert '"ä": [\n' in out
    assert out.replace('\n', '').isprintable()


def test_json_is_ascii_where_nothing_else_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, 'latin-1', errors='backslashreplace', write_through=True) as stdout:
        monkeypatch.setattr(sys, 'stdout', stdout)
        print_json('ä\u4e16')
        assert raw.getvalue() == b'"\\u00e4\\u4e16"\n'


def test_json_goes_to_any_stream() -> None:
    stream = io.StringIO()  # has no encoding
    with contextlib.redirect_stdout(stream):
        print_json('ä')
    assert stream.getvalue() == '"ä"\n'


@pytest.mark.parametrize(
    ('count', 'text'),
    [
        (0, '0 bytes'),
        (1023, '1,023 bytes'),
        (1024, '1.0 KiB'),
        (1 << 26, '64.0 MiB'),
        (1.5 * 2**30, '1.5 GiB'),
        (5000 * 2**40, '5,000.0 TiB'),
    ],
)
def test_bytes_are_told_in_units(count: float, text: str) -> None:
    assert bytes_text(count) == text
