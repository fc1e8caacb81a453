"""One worker that fetches, as a process of its own: `python -m tests.helpers.fetched TABLE OUT`.

Its steps behind are slower than the network. It prints the most resident memory it ever had, in
bytes.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_mds import FetchOptions, ReadUrls, WriteToMDS


def _slowly(sample: Any) -> Any:
    time.sleep(0.005)
    return sample


if __name__ == '__main__':
    table, out = sys.argv[1:]
    fetch = FetchOptions(concurrency=64, per_host=64, allow_private_hosts=True)
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = (
            pipeline
            | ReadUrls([table], fetch=fetch)
            | beam.Map(_slowly)
            | WriteToMDS(out, {'url': 'str', 'content': 'bytes', 'status': 'int'})
        )
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
