"""The real reader and writer, mosaicml-streaming, as a process that answers questions.

Runs in the environment that has it (BEAM_MDS_INTEROP_PYTHON); the tests run in ours, start it once
and send one JSON request a line: `{"command": "write", ...}`. The answer is one JSON line. What
JSON cannot hold travels as pickle files. Every command is a function of this module whose name
starts with `do_`.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
import types
from importlib.machinery import ModuleSpec
from typing import Any


def portable(value: Any) -> Any:
    """A value that two environments compare alike: images become their pixels, NaN a text."""
    if isinstance(value, dict):
        return {key: portable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(portable, value)]
    if hasattr(value, 'getbands'):
        return ['image', value.format, value.mode, value.size, value.tobytes()]
    if hasattr(value, 'tobytes') and hasattr(value, 'dtype'):
        return [type(value).__name__, value.dtype.str, value.shape, value.tobytes()]
    if value != value:  # NaN
        return [type(value).__name__, repr(value)]
    return [type(value).__name__, value]


def do_versions() -> dict[str, str | None]:
    """Versions that bytes depend on."""
    import numpy as np
    from PIL import features

    names = ('libjpeg_turbo', 'jpg', 'zlib', 'zlib_ng')
    return {'numpy': np.__version__, **{name: features.version(name) for name in names}}


def do_encode(values: str) -> list[str]:
    """The hex bytes of each (encoding, value) pair of a pickle file."""
    from streaming.base.format.mds.encodings import mds_encode

    return [mds_encode(encoding, value).hex() for encoding, value in _load(values)]


def do_encodings() -> list[str]:
    """The names of all encodings."""
    from streaming.base.format.mds.encodings import get_mds_encodings

    return sorted(get_mds_encodings())


def do_write(samples: str, out: str, columns: dict[str, str], **options: Any) -> None:
    """Writes a dataset with MDSWriter."""
    from streaming import MDSWriter

    with MDSWriter(columns=columns, out=out, **options) as writer:
        for sample in _load(samples):
            writer.write(sample)


def do_merge(out: str) -> None:
    """Writes one index for the datasets in the sub-folders, by streaming's own function."""
    from streaming.base.util import merge_index

    merge_index(out)


def do_read(local: str, samples: str, remote: str | None = None, **options: Any) -> None:
    """Reads a dataset with StreamingDataset into a pickle file of portable samples."""
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()
    dataset = StreamingDataset(
        local=local, remote=remote, shuffle=False, batch_size=1, allow_unsafe_types=True, **options
    )
    read = [portable(dataset[row]) for row in range(len(dataset))]
    with open(samples, 'wb') as file:
        pickle.dump(read, file, protocol=4)


def do_read_vision(kind: str, local: str, split: str, samples: str) -> None:
    """Reads a dataset with one of streaming's own datasets of images, like `StreamingCOCO`."""
    import streaming.vision as vision
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()
    options = {} if kind in ('StreamingADE20K', 'StreamingCOCO') else {'transform': _same}
    dataset = getattr(vision, kind)(local=local, split=split, batch_size=1, **options)
    read = [portable(dataset[row]) for row in range(len(dataset))]
    with open(samples, 'wb') as file:
        pickle.dump(read, file, protocol=4)


def _same(image: Any) -> Any:
    return image


def do_tokenize(tokenizer: str, texts: str, ids: str) -> None:
    """The ids of texts, as `transformers` gives them by default, into a pickle file."""
    from transformers import PreTrainedTokenizerFast

    tokenize = PreTrainedTokenizerFast(tokenizer_file=tokenizer)
    with open(ids, 'wb') as file:
        found = [tokenize(text)['input_ids'] for text in _load(texts)]
        pickle.dump(found, file, protocol=4)


def do_hashes() -> list[str]:
    """The names of all hashes."""
    from streaming.base.hashing import get_hashes

    return sorted(get_hashes())


def do_hash(path: str) -> dict[str, str]:
    """The hex digests of a file, by every hash."""
    from streaming.base.hashing import get_hash, get_hashes

    with open(path, 'rb') as file:
        data = file.read()
    return {name: get_hash(name, data) for name in get_hashes()}


def do_compressions() -> list[str]:
    """The names of all compressions, with their levels."""
    from streaming.base.compression import get_compressions

    return sorted(get_compressions())


def do_compress(name: str, source: str, target: str) -> None:
    """Compresses a file."""
    from streaming.base.compression import compress

    with open(source, 'rb') as file, open(target, 'wb') as out:
        out.write(compress(name, file.read()))


def do_decompress(name: str, source: str, target: str) -> None:
    """Decompresses a file."""
    from streaming.base.compression import decompress

    with open(source, 'rb') as file, open(target, 'wb') as out:
        out.write(decompress(name, file.read()))


def _load(path: str) -> Any:
    with open(path, 'rb') as file:
        return pickle.load(file)


def _stub_torchvision() -> None:
    """Lets `streaming` be imported where torchvision is absent; only its vision classes use it."""
    try:
        import torchvision  # type: ignore[import-not-found]  # noqa: F401
    except (ImportError, RuntimeError):  # RuntimeError: built for another torch
        names = ('', '.datasets', '.transforms', '.transforms.functional')
        stubs = [types.ModuleType(f'torchvision{name}') for name in names]
        stubs[1].VisionDataset = object  # type: ignore[attr-defined]
        stubs[3].to_tensor = None  # type: ignore[attr-defined]
        for stub in stubs:
            stub.__spec__ = ModuleSpec(stub.__name__, None)  # transformers looks at it
            sys.modules[stub.__name__] = stub


def main() -> None:
    """Answers requests until standard input ends."""
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)  # what libraries print must not come between the answers
    _stub_torchvision()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {'answer': globals()[f'do_{request.pop("command")}'](**request)}
        except Exception:  # noqa: BLE001 - the test shows it
            answer = {'error': traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == '__main__':
    main()
