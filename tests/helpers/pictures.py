"""Small image files for tests, and what a source gives for them."""

from __future__ import annotations

import io
import pickle
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
from PIL import Image

from beam_mds import BadRecord
from beam_mds.records import PLACE


def picture(
    seed: int = 0, width: int = 12, height: int = 9, kind: str = 'JPEG', **how: Any
) -> bytes:
    """An image file of noise that the seed gives."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return encoded(Image.fromarray(pixels), kind, **how)


def encoded(image: Image.Image, kind: str = 'PNG', **how: Any) -> bytes:
    """An image as a file."""
    out = io.BytesIO()
    image.save(out, kind, **how)
    return out.getvalue()


def mask(seed: int = 0, width: int = 12, height: int = 9) -> bytes:
    """A PNG file with a class for each pixel."""
    classes = np.random.default_rng(seed).integers(0, 150, (height, width), np.uint8)
    return encoded(Image.fromarray(classes))


def put(root: Path, files: dict[str, bytes]) -> Path:
    """Writes files below a folder."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def through_beam(source: beam.PTransform) -> list[Any]:
    """What a source gives in a pipeline."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'elements'
        with beam.Pipeline(runner='FnApiRunner') as pipeline:
            _ = pipeline | source | beam.combiners.ToList() | beam.Map(_keep, path)
        found: list[Any] = pickle.loads(path.read_bytes())
        return found


def _keep(found: list[Any], path: Path) -> None:
    path.write_bytes(pickle.dumps(found))


def good(elements: Iterable[Any]) -> list[dict[str, Any]]:
    """The samples, without their places."""
    return [
        {name: value for name, value in element.items() if name != PLACE}
        for element in elements
        if not isinstance(element, BadRecord)
    ]


def bad(elements: Iterable[Any], root: Path) -> dict[str, tuple[str, str]]:
    """The notes: file below the root -> kind and message, in which the root is `ROOT`."""
    return {
        str(note.place['file']).removeprefix(f'{root}/'): (
            note.error_type,
            note.message.replace(str(root), 'ROOT'),
        )
        for note in elements
        if isinstance(note, BadRecord)
    }
