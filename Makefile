# Two commands do everything on a fresh machine: `make up` and `make test`. GNU make 3.81, Python 3.11 or newer, a package index.

PYTHON ?= python3
BIN := .venv/bin
ONLY ?=
SOURCES ?=

.PHONY: help up test check format bench lock clean

help:  ## what there is
	@grep -E '^[a-z.-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

.venv/ready: requirements.txt pyproject.toml layers/client/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "This Python has no venv module (Debian: apt-get install python3-venv)"; exit 1; }
	@echo "Installing about 110 packages into .venv (500 MB, one to three minutes) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt || { echo "The packages could not be installed: is a package index within reach?"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e layers/client -e .
	@$(BIN)/python -m compileall -q $(BIN)/../lib >/dev/null 2>&1 || true
	@touch $@

.venv: .venv/ready

up: .venv/ready  ## the whole stack on this laptop; SOURCES=sources.toml takes your own lists
	@$(BIN)/proxypool up $(if $(SOURCES),--sources $(SOURCES))

test: .venv/ready  ## all tests that fit into five minutes
	@$(BIN)/python -m pytest -n 2 --dist loadgroup

check: .venv/ready  ## format, lint, types, imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy layers/core/proxypool layers/client/proxypool_client tests
	@$(BIN)/lint-imports

format: .venv/ready  ## what a formatter can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: .venv/ready  ## measurements: ONLY=name for one
	@$(BIN)/python -m tests.bench $(if $(ONLY),--only $(ONLY))

lock: .venv/ready  ## requirements.txt anew, newest versions (needs uv)
	@uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
	    --no-emit-package proxypool --no-emit-package proxypool-client requirements.in -o requirements.txt

clean:  ## everything that can be made again
	@rm -rf .venv .venv-tools build .aws-sam .pytest_cache .mypy_cache .ruff_cache .hypothesis
