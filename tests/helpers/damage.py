"""What the tests of checks share: datasets on disk that are changed afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beam_mds.format import INDEX_NAME
from beam_mds.indexes import read_index
from beam_mds.writing.planning import numbered


def shards(folder: Path) -> list[Path]:
    """The stored files of a dataset in the index's order."""
    return [folder / info.stored.basename for info in read_index(folder)]


def rename_as_mdswriter(folder: Path) -> None:
    """Takes the hashes out of the names of the shards."""
    text = (folder / INDEX_NAME).read_text()
    for file in folder.glob('shard.*'):
        named = numbered(file.name)
        assert named
        text = text.replace(f'.{named[1]}.mds', '.mds')
        file.rename(folder / file.name.replace(f'.{named[1]}', ''))
    (folder / INDEX_NAME).write_text(text)


def change_index(folder: Path, change: Callable[[list[Any]], Any]) -> None:
    """Has a function change the entries of an index."""
    index = json.loads((folder / INDEX_NAME).read_bytes())
    change(index['shards'])
    (folder / INDEX_NAME).write_text(json.dumps(index))
