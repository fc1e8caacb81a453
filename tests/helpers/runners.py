"""Runners beside FnApiRunner in memory, for tests that say which one they take."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.portability.prism_runner import PrismRunner


def runner_of(kind: str) -> tuple[Any, list[str]]:
    """A runner and its flags: `processes`, `portable`, or `prism` where its program is there."""
    if kind == 'processes':
        return None, ['--direct_running_mode=multi_processing', '--direct_num_workers=2']
    loopback = '--environment_type=LOOPBACK'
    if kind == 'portable':
        return PortableRunner(), ['--job_endpoint=embed', loopback]
    program = os.environ.get('BEAM_MDS_PRISM') or shutil.which('prism')
    if not program:
        pytest.skip('BEAM_MDS_PRISM names no Prism program, and none is on PATH')
    return PrismRunner(), [f'--prism_location={program}', loopback]
