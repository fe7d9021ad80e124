# GNU make 3.81 is enough. `make` alone lists the targets.
PYTHON ?= python3
BIN = .venv/bin
TOOLS = .venv-tools/bin
CODE = layers functions tests tools
PIP = -m pip install --quiet --disable-pip-version-check

.PHONY: help up test check bench mutate build clean lock

help:  ## this list
	@grep -E '^[.a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/'

.venv: .venv/.done  ## the environment of `up` and `test`
.venv/.done: requirements.txt pyproject.toml layers/client/pyproject.toml
	@$(PYTHON) tools/precheck.py
	@echo "Installing the locked packages into .venv: about 300 MB, one to two minutes."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python $(PIP) --require-hashes --requirement requirements.txt || { echo "The package index cannot be reached, or a package has changed." >&2; exit 1; }
	@$(BIN)/python $(PIP) --no-deps --no-build-isolation --editable layers/client --editable .
	@touch $@

.venv-tools/.done: tools/requirements.txt
	@$(PYTHON) tools/precheck.py
	@echo "Installing sam, cfn-lint and checkov into .venv-tools: about 400 MB, one to two minutes."
	@$(PYTHON) -m venv .venv-tools
	@.venv-tools/bin/python $(PIP) --no-deps --require-hashes --requirement tools/requirements.txt || { echo "The package index cannot be reached, or a package has changed." >&2; exit 1; }
	@touch $@

up: .venv/.done  ## the stack on this machine; SOURCES=sources.toml for your own lists
	@$(BIN)/proxypool up $(if $(SOURCES),--sources "$(SOURCES)")

test: .venv/.done  ## all tests
	$(BIN)/python -m pytest -n auto --dist loadgroup

check: .venv/.done .venv-tools/.done  ## format, lint, types, imports, templates
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy layers tools tests
	for function in functions/*/app.py; do $(BIN)/mypy "$$function" || exit 1; done
	$(BIN)/lint-imports
	$(BIN)/python tools/translate.py build/translated.json
	$(TOOLS)/cfn-lint template.yaml infra/*.yaml build/translated.json
	$(TOOLS)/checkov --file template.yaml --config-file .checkov.yaml
	AWS_DEFAULT_REGION=us-east-1 SAM_CLI_TELEMETRY=0 $(TOOLS)/sam validate --lint

bench: .venv/.done  ## the measurements; ONLY=name for one
	$(BIN)/python -m tests.bench $(if $(ONLY),--only "$(ONLY)")

mutate: .venv/.done  ## delete each statement of the lease scripts in turn: some test must fail (hours; SCRIPT=name for one)
	$(BIN)/python tools/mutate.py $(if $(SCRIPT),--script "$(SCRIPT)")

build: .venv/.done  ## the layers for Lambda in build/aws, or with HOST=1 for this machine in build/host
	$(BIN)/python tools/build.py $(if $(HOST),host,aws)

lock:  ## the requirements again, from their .in files (needs uv)
	for part in . tools layers/deps; do uv pip compile --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header -q $$part/requirements.in -o $$part/requirements.txt || exit 1; done

clean:  ## remove what was built, and the environments
	rm -rf build .aws-sam .venv .venv-tools .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
