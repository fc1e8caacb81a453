"""Packaging of beam_mds; tool settings are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent


def read_version() -> str:
    """Return the version, without importing the package: its dependencies may be absent."""
    source = (ROOT / 'beam_mds' / '_version.py').read_text(encoding='utf-8')
    match = re.search(r"^__version__ = '([^']+)'$", source, flags=re.MULTILINE)
    if match is None:
        raise RuntimeError("beam_mds/_version.py has no line like: __version__ = '1.2.3'")
    return match.group(1)


def read_readme() -> str:
    """Return the text of README.md, empty where it was not copied along."""
    readme = ROOT / 'README.md'
    return readme.read_text(encoding='utf-8') if readme.exists() else ''


PILLOW = 'pillow>=12.1.1'  # apache-beam 2.77's own lower bound
MYPY = 'mypy==2.4.1'
TOKENIZERS = [
    'tokenizers>=0.20',  # encode_batch_fast
    'tiktoken>=0.9',  # encode_to_numpy
]
PYCURL = 'pycurl>=7.45.3'  # the first one that brings libcurl along

setup(
    name='beam-mds',
    version=read_version(),
    description='Write, read, merge and verify MosaicML Streaming (MDS) datasets with Apache Beam',
    long_description=read_readme(),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    license_files=['LICENSE'],
    keywords=['apache-beam', 'dataflow', 'mosaicml', 'streaming', 'mds', 'training-data'],
    classifiers=[
        'Development Status :: 4 - Beta',
        'Intended Audience :: Developers',
        'Intended Audience :: Science/Research',
        'Operating System :: POSIX',
        'Programming Language :: Python :: 3',
        'Programming Language :: Python :: 3 :: Only',
        'Programming Language :: Python :: 3.10',
        'Programming Language :: Python :: 3.11',
        'Programming Language :: Python :: 3.12',
        'Programming Language :: Python :: 3.13',
        'Topic :: Scientific/Engineering :: Artificial Intelligence',
        'Typing :: Typed',
    ],
    packages=find_packages(include=['beam_mds', 'beam_mds.*', 'pipelines', 'pipelines.*']),
    package_data={'beam_mds': ['py.typed']},
    entry_points={'console_scripts': ['beam-mds = beam_mds.cli:main']},
    python_requires='>=3.10,<3.14',
    install_requires=[
        'apache-beam[gcp]>=2.77.0,<3',
        'fastavro>=0.23.6,<2',  # beam_mds.sources.tables; apache-beam's own bounds
        'google-cloud-storage>=2.18.2,<4',
        'google-crc32c>=1.6.0,<2',  # of TFRecord files; google-cloud-storage's own lower bound
        'numpy>=1.26',
        'orjson>=3.9.7',  # beam_mds.sources.jsonl; apache-beam's own lower bound
        'protobuf>=4.25.0,<7',  # tf.train.Example; what apache-beam allows, less its oldest
        'pyarrow>=18.0.0',
        'shtab>=1.7',  # beam-mds completion
        'tqdm>=4.66',  # beam-mds's progress on a terminal
        'xxhash>=3.5.0',
        'zstandard>=0.23.0,<1',
    ],
    extras_require={
        'images': [PILLOW],
        'tokens': TOKENIZERS,
        'urls': [PYCURL],
        'test': [
            'apache-beam[dataframe]',
            'gcp-storage-emulator>=2026.7.19',
            'hypothesis>=6.100',
            MYPY,
            PILLOW,
            PYCURL,
            'pytest>=8.2',
            'webdataset>=1.0.2',  # its own tars, to read
            *TOKENIZERS,
        ],
        'lint': [
            MYPY,
            PILLOW,  # typed: mypy reads it
            'ruff==0.17.6',
            'types-tqdm',
            *TOKENIZERS,  # typed
        ],
        'bench': [
            PILLOW,
            *TOKENIZERS,
            PYCURL,
        ],
    },
)
