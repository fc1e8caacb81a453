"""The program `beam-mds`: one module for each sub-command, what they share in `console`."""

from beam_mds.cli.main import main

__all__ = ['main']
