# GNU make 3.81 is enough. `make` alone lists the targets.
PYTHON ?= python3
BIN = .venv/bin
TOOLS = .venv-tools/bin
CODE = layers functions tests tools
PIP = -m pip install --disable-pip-version-check --retries 2
NOT_INSTALLED = The packages were not installed: the index cannot be reached, or a package has changed. See

.PHONY: help up down test test-at test-start check bench mutate build openapi configuration promises clean lock

define CHECK_PYTHON
@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON) here: install Python 3.11 or newer, or name one: make PYTHON=python3.12 ..." >&2; exit 1; }
@$(PYTHON) tools/precheck.py
endef

help:  ## this list
	@grep -E '^[.a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/'

.venv: .venv/.done  ## the environment of `up` and `test`
.venv/.done: requirements.txt pyproject.toml layers/client/pyproject.toml
	$(CHECK_PYTHON)
	@echo "Installing the locked packages into .venv: about 300 MB, one to two minutes."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python $(PIP) --log .venv/pip.log --require-hashes --requirement requirements.txt >/dev/null 2>&1 || { echo "$(NOT_INSTALLED) .venv/pip.log" >&2; exit 1; }
	@$(BIN)/python $(PIP) --log .venv/pip.log --no-deps --no-build-isolation --editable layers/client --editable . >/dev/null 2>&1 || { echo "$(NOT_INSTALLED) .venv/pip.log" >&2; exit 1; }
	@touch $@

.venv-tools/.done: tools/requirements.txt
	$(CHECK_PYTHON)
	@echo "Installing sam, cfn-lint and checkov into .venv-tools: about 400 MB, one to two minutes."
	@$(PYTHON) -m venv .venv-tools
	@$(TOOLS)/python $(PIP) --log .venv-tools/pip.log --no-deps --require-hashes --requirement tools/requirements.txt >/dev/null 2>&1 || { echo "$(NOT_INSTALLED) .venv-tools/pip.log" >&2; exit 1; }
	@touch $@

up: .venv/.done  ## the stack on this machine; SOURCES=sources.toml for your own lists, DETACH=1 for the background
	@$(BIN)/proxypool up $(if $(SOURCES),--sources "$(SOURCES)") $(if $(DETACH),--detach)

down: .venv/.done  ## stop what `make up DETACH=1` started; its state is kept
	@$(BIN)/proxypool down

test: .venv/.done  ## all tests
	$(BIN)/python -m pytest -n 4 --dist loadgroup

test-at: .venv/.done  ## unit and integration tests with the pool's clock at an instant: AT=2028-02-29T23:59:30Z
	$(BIN)/python -m pytest -n 4 --dist loadgroup tests/unit tests/integration --ignore tests/integration/test_build.py --at "$(AT)"

test-start: .venv/.done  ## `make up` as a reader runs it, on a machine that is not kind (a minute or two)
	$(BIN)/python -m pytest tests/start

check: .venv/.done .venv-tools/.done  ## format, lint, types, imports, words, settings, templates
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy layers tools tests
	for function in functions/*/app.py; do $(BIN)/mypy "$$function" || exit 1; done
	$(BIN)/lint-imports
	$(BIN)/python tools/words.py
	$(TOOLS)/python tools/sam_parameters.py build/parameters.json
	$(BIN)/python tools/configuration.py --check build/parameters.json
	$(BIN)/python tools/translate.py build/translated.json
	$(TOOLS)/cfn-lint template.yaml infra/*.yaml build/translated.json
	$(TOOLS)/checkov --file template.yaml --config-file .checkov.yaml
	AWS_DEFAULT_REGION=us-east-1 SAM_CLI_TELEMETRY=0 $(TOOLS)/sam validate --lint

bench: .venv/.done  ## the measurements; ONLY=name for one
	$(BIN)/python -m tests.bench $(if $(ONLY),--only "$(ONLY)")

mutate: .venv/.done  ## delete each statement of the lease scripts in turn: some test must fail (about half an hour; SCRIPT=name for one)
	$(BIN)/python -m tools.mutate $(if $(SCRIPT),--script "$(SCRIPT)")

build: .venv/.done  ## the layers for Lambda in build/aws, or with HOST=1 for this machine in build/host
	$(BIN)/python tools/build.py $(if $(HOST),host,aws)

promises: .venv/.done  ## the last column of docs/promises.md again, from the tests
	$(BIN)/python tools/promises.py

openapi: .venv/.done  ## the API's document again, from the tables of its routes
	$(BIN)/python tools/openapi.py

configuration: .venv/.done  ## the parts of template.yaml and docs/configuration.md that follow from the table of settings
	$(BIN)/python tools/configuration.py

lock:  ## the requirements again, from their .in files (needs uv)
	for part in . tools layers/deps; do uv pip compile --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header -q $$part/requirements.in -o $$part/requirements.txt || exit 1; done

clean:  ## remove what was built, and the environments
	rm -rf build .aws-sam .venv .venv-tools .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
