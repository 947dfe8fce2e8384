# Everything a newcomer or a build machine needs. `make run` and `make test` work from a bare clone with Python 3.11 and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(CURDIR)/$(VENV)/bin
# The folder that holds (or will hold) the brain that `make run` serves.
DIR    ?= .

.PHONY: run test check format build bench bench-peers crash soak lock clean

run: $(VENV)/.run
	@cd $(DIR) && { test -e brain || $(BIN)/brainy init; } && exec $(BIN)/brainy

test: $(VENV)/.dev
	$(BIN)/python -m pytest

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m contract.build --check

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Writes every generated file anew from the declarations in contract/.
build: $(VENV)/.dev
	$(BIN)/python -m contract.build

bench: $(VENV)/.dev
	$(BIN)/python -m tests.bench

# Beside Chroma and PostgreSQL, which it installs under .peers/ at the first run.
bench-peers: $(VENV)/.dev
	$(BIN)/python -m tests.bench.peers

crash: $(VENV)/.dev
	$(BIN)/python -m tests.crash --kills 200

# Resolves requirements/*.in again. Needs uv on the path; the result is committed.
lock:
	uv pip compile --no-header --generate-hashes --python-version 3.11 requirements/run.in -o requirements/run.txt
	uv pip compile --no-header --generate-hashes --python-version 3.11 -c requirements/run.txt requirements/dev.in -o requirements/dev.txt

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Brainy needs Python 3.11 or newer: set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/run.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@
