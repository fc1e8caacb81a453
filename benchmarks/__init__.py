"""Side-by-side runs of beam_mds and the alternatives: see README.md in this folder."""
