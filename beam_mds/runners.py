"""Where a pipeline's workers run."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.options.pipeline_options import PortableOptions

# Runners whose workers share the machine, and so its temporary folder, with the launching process.
_LOCAL = frozenset(
    {
        'DirectRunner',
        'SwitchingDirectRunner',
        'BundleBasedDirectRunner',
        'FnApiRunner',
        'PrismRunner',
    }
)


def runs_here(pipeline: beam.Pipeline) -> bool:
    """Whether a pipeline's workers share this machine's files."""
    runner = type(pipeline.runner).__name__
    environment = pipeline.options.view_as(PortableOptions).environment_type
    if runner == 'PortableRunner' or environment:
        return bool(environment == 'LOOPBACK')
    return runner in _LOCAL
