"""What a check of a dataset can find."""

from __future__ import annotations

from typing import NamedTuple

from beam_mds.errors import FormatError

# What a finding can be about, in the order in which a dataset is looked at.
KINDS = {
    'unreadable': 'the store does not give this file or list this folder, so it is not checked',
    'index': 'no index.json, or none of MDS version 2, or an entry or a sub-folder does not fit',
    'duplicate': 'the index lists this file twice',
    'columns': 'the index says that this shard has other columns than the first',
    'extra': 'no index lists this file: a leftover, or a shard that the dataset has lost',
    'missing': 'the index lists this file, and it is not there',
    'size': 'the file has another size than the index says',
    'hash': 'the file has another hash than the index says',
    'compression': 'the file does not decompress to the raw size that the index says',
    'raw-hash': 'the decompressed file has another hash than the index says',
    'count': 'the file has another number of samples than the index says',
    'header': 'the offsets of the samples do not rise, or do not end where the file does',
    'config': 'the description of the columns in the file is unreadable, or not that of the index',
    'sample': 'the sizes in a sample do not fit its bytes, or (deep) a value does not decode',
    'name': 'the hash in the name that WriteToMDS gave this file is not that of its bytes',
}


class Finding(NamedTuple):
    """One thing that is wrong with a dataset.

    Attributes:
        file: The file's full path.
        kind: One of `KINDS`.
        detail: What is wrong, with the values.
    """

    file: str
    kind: str
    detail: str


class CheckError(FormatError):
    """A file that cannot be looked at further.

    Attributes:
        kind: One of `KINDS`.
        detail: What is wrong.
    """

    def __init__(self, kind: str, detail: str) -> None:
        """Makes the error; see the class for the arguments."""
        self.kind, self.detail = kind, detail
        super().__init__(f'{kind}: {detail}')

    def __reduce__(self) -> tuple[type[CheckError], tuple[str, str]]:
        """Pickles by the constructor's arguments."""
        return CheckError, (self.kind, self.detail)
