# make test PYTHON=python3.12       another interpreter for .venv (after make clean)
# make interop INTEROP_PYTHON=...   another interpreter for .venv-interop: one that can import torch lends its torch
PYTHON ?= python3
INTEROP_PYTHON ?= python3
DEMO_OUT ?= demo-out/dataset

VENV := .venv
VENV_INTEROP := .venv-interop
VENV_IMG2DATASET := .venv-img2dataset
PY := $(VENV)/bin/python
INTEROP := BEAM_MDS_INTEROP_PYTHON=$(abspath $(VENV_INTEROP)/bin/python)

# What a reinstall depends on: the requirements and the version.
PACKAGING := setup.py beam_mds/_version.py

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test interop lint bench clean
.NOTPARALLEL:

demo: $(VENV)/.demo-installed
	rm -rf demo-out/dataset
	$(PY) -m pipelines.python_sources --output $(DEMO_OUT)

test: $(VENV)/.test-installed
	$(PY) -m pytest tests -m 'not interop'
	$(PY) -m pytest --doctest-modules beam_mds

interop: $(VENV)/.test-installed $(VENV_INTEROP)/.installed
	$(INTEROP) $(PY) -m pytest tests -m interop

lint: $(VENV)/.lint-installed
	$(PY) -m ruff format --check
	$(PY) -m ruff check
	$(PY) -m mypy --strict beam_mds pipelines

bench: $(VENV)/.bench-installed $(VENV_INTEROP)/.installed $(VENV_IMG2DATASET)/.installed
	$(INTEROP) $(PY) -m benchmarks.run
	$(PY) -m benchmarks.urls
	$(INTEROP) $(PY) -m benchmarks.jsonl

clean:
	rm -rf $(VENV) $(VENV_INTEROP) $(VENV_IMG2DATASET) demo-out build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.demo-installed: $(VENV)/.created $(PACKAGING)
	$(PY) -m pip install --quiet -e .
	touch $@

# .test-installed, .lint-installed, .bench-installed: the package with that extra.
$(VENV)/.%-installed: $(VENV)/.created $(PACKAGING)
	$(PY) -m pip install --quiet -e '.[$*]'
	touch $@

# Depends on .venv's Pillow: JPEG bytes are compared, so both environments have the same one.
$(VENV_INTEROP)/.installed: .ci/make-interop-venv $(VENV)/.test-installed
	.ci/make-interop-venv $(VENV_INTEROP) $(INTEROP_PYTHON) \
	  "$$($(PY) -c 'import PIL; print(PIL.__version__)')"
	touch $@

$(VENV_IMG2DATASET)/.installed: .ci/make-img2dataset-venv
	.ci/make-img2dataset-venv $(VENV_IMG2DATASET) $(PYTHON)
	touch $@
