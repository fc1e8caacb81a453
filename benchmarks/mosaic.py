"""Gives what is compared of `streaming`, also where torchvision is missing.

`streaming` imports torchvision for dataset classes that are not used here. Where it is not
installed, or does not match torch, empty modules stand in for it.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


def _stand_in_for_torchvision() -> None:
    parts = ('torchvision', 'torchvision.datasets', 'torchvision.transforms')
    modules = {name: ModuleType(name) for name in (*parts, 'torchvision.transforms.functional')}
    vars(modules['torchvision.datasets'])['VisionDataset'] = object
    vars(modules['torchvision.transforms.functional'])['to_tensor'] = None
    sys.modules.update(modules)


# Asks for torchvision's spec when first imported, so it must come before the stand-in.
importlib.import_module('transformers.utils.import_utils')

try:
    importlib.import_module('torchvision')
except Exception:  # noqa: BLE001 (a torchvision that does not match torch fails in many ways)
    _stand_in_for_torchvision()

from streaming import MDSWriter, StreamingDataset  # noqa: E402 (after the stand-in)
from streaming.base.util import merge_index  # noqa: E402

__all__ = ['MDSWriter', 'StreamingDataset', 'merge_index']
