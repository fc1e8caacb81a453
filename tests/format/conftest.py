"""Settings of the property tests: a busy machine is slow, not wrong."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile('beam_mds', deadline=None)
settings.load_profile('beam_mds')
