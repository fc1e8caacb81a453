"""One run of img2dataset, in its own environment; see `urls`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--table', required=True)
    parser.add_argument('--out', required=True)
    parser.add_argument('--processes', type=int, required=True)
    parser.add_argument('--threads', type=int, required=True)
    args = parser.parse_args()
    os.environ['NO_ALBUMENTATIONS_UPDATE'] = '1'  # one of its libraries asks the network otherwise
    from img2dataset import download

    download(
        url_list=args.table,
        input_format='csv',
        url_col='url',
        caption_col='caption',
        output_format='webdataset',
        output_folder=args.out,
        processes_count=args.processes,
        thread_count=args.threads,
        number_sample_per_shard=1000,
        resize_mode='no',
        disable_all_reencoding=True,
    )
    stats = [json.loads(path.read_text()) for path in Path(args.out).glob('*_stats.json')]
    # Its own figure: without the start of its processes.
    first, last = min(s['start_time'] for s in stats), max(s['end_time'] for s in stats)
    fetched = sum(s['successes'] for s in stats)
    failed = sum(s['failed_to_download'] + s['failed_to_resize'] for s in stats)
    print(json.dumps({'seconds': last - first, 'fetched': fetched, 'failed': failed}))
    sys.stdout.flush()
