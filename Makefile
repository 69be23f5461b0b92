# One command each; the first call of any makes the virtual environment.
#   make demo    speak a paragraph through a real service and write demo.wav
#   make test    lint, types, import contracts, tests
#   make serve   run the service until interrupted
# Variables: PYTHON (interpreter for the environment), TORCH_INDEX (extra package index for torch, see README),
#            CONSTRAINTS (pinned versions; empty takes what pip finds), TESTS (what pytest runs).

PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints-cpu.txt
TORCH_INDEX ?=
TESTS ?= tests

BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install -q $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.PHONY: demo test serve lint check clean

demo: $(VENV)/.installed
	$(BIN)/realtime demo --output demo.wav

serve: $(VENV)/.installed
	$(BIN)/realtime serve

test: $(VENV)/.installed-dev
	$(MAKE) --no-print-directory check
	$(BIN)/python -m pytest $(TESTS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright --pythonpath $(BIN)/python

clean:
	rm -rf $(VENV) build *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(PIP_INSTALL) -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(PIP_INSTALL) -e ".[dev]"
	touch $@ $(VENV)/.installed
