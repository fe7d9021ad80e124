# Works with GNU make 3.81. `make` without a target lists the targets.
PYTHON ?= python3
BIN = .venv/bin
TOOLS = .venv-tools/bin
CODE = layers functions tests tools
PIP = -m pip install --disable-pip-version-check --retries 2
NOT_INSTALLED = The packages could not be installed: the index is unreachable, or a package does not match its hash. See

.PHONY: help up down test test-at test-start check bench mutate build openapi configuration promises clean lock

define CHECK_PYTHON
@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or newer, or choose one: make PYTHON=python3.12 ..." >&2; exit 1; }
@$(PYTHON) tools/precheck.py
endef

help:  ## list the targets
	@grep -E '^[.a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/'

.venv: .venv/.done  ## create the environment of `up` and `test`
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

up: .venv/.done  ## start the local stack; SOURCES=sources.toml for your own lists, DETACH=1 for the background
	@$(BIN)/proxypool up $(if $(SOURCES),--sources "$(SOURCES)") $(if $(DETACH),--detach)

down: .venv/.done  ## stop the local stack; its state is kept
	@$(BIN)/proxypool down

test: .venv/.done  ## run unit, integration and end-to-end tests
	$(BIN)/python -m pytest -n 4 --dist loadgroup

test-at: .venv/.done  ## run unit and integration tests with the pool's clock at AT=2028-02-29T23:59:30Z
	$(BIN)/python -m pytest -n 4 --dist loadgroup tests/unit tests/integration --ignore tests/integration/test_build.py --at "$(AT)"

test-start: .venv/.done  ## smoke test of `make up` on a bare machine (one to two minutes)
	$(BIN)/python -m pytest tests/start

check: .venv/.done .venv-tools/.done  ## check format, lint, types, imports, words, generated files and templates
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

bench: .venv/.done  ## run the benchmarks; ONLY=name for one
	$(BIN)/python -m tests.bench $(if $(ONLY),--only "$(ONLY)")

mutate: .venv/.done  ## mutation tests of the lease scripts (about half an hour); SCRIPT=name for one
	$(BIN)/python -m tools.mutate $(if $(SCRIPT),--script "$(SCRIPT)")

build: .venv/.done  ## build the layers for Lambda in build/aws, or with HOST=1 for this machine in build/host
	$(BIN)/python tools/build.py $(if $(HOST),host,aws)

promises: .venv/.done  ## generate the last column of docs/promises.md from the tests
	$(BIN)/python tools/promises.py

openapi: .venv/.done  ## generate the OpenAPI document from the tables of routes
	$(BIN)/python tools/openapi.py

configuration: .venv/.done  ## generate parts of template.yaml, infra/monitoring.yaml and docs/configuration.md from settings and metrics
	$(BIN)/python tools/configuration.py

lock:  ## compile the requirements from their .in files (needs uv)
	for part in . tools layers/deps; do uv pip compile --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header -q $$part/requirements.in -o $$part/requirements.txt || exit 1; done

clean:  ## remove build output and environments
	rm -rf build .aws-sam .venv .venv-tools .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
