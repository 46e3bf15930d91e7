# Each target makes the environment it needs: on a fresh machine with Python 3.11 or newer, `make demo` is enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help install demo test quick faults lint format bench hooks clean distclean

help: ## List the targets.
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

install: $(STAMP) ## Create .venv and install the package with all extras and the development tools.

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys' 2>/dev/null || \
	  { echo "make: no such interpreter: $(PYTHON); install Python 3.11 or newer, or name it: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("make: $(PYTHON) is Python %d.%d; prism-fcp needs 3.11 or newer: make PYTHON=python3.12 ..." % (v[0], v[1]))'
	@if [ -x $(BIN)/python ] && ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then rm -rf $(VENV); fi
	@if [ ! -x $(BIN)/python ]; then echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); fi
	@echo "installing prism-fcp into $(VENV) (the first time: about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $@

demo: $(STAMP) ## Train, calibrate and predict with attackers in the federation, and say who was caught.
	@$(BIN)/prism-fcp demo

test: $(STAMP) ## Run every test and every example in a docstring, on two processes.
	@$(PYTEST) -n 2 --dist worksteal $(ARGS)

quick: $(STAMP) ## Run the tests that are not marked slow.
	@$(PYTEST) -n 2 --dist worksteal -m 'not slow' $(ARGS)

faults: $(STAMP) ## Break a deployment of Flower in every way the table in docs/federation.md names (about ten minutes).
	@rm -f faults.jsonl
	@FAULTS_SEEN=$(CURDIR)/faults.jsonl $(PYTEST) -m '' tests/federation/faults $(ARGS)
	@$(BIN)/python tests/federation/faults/table.py faults.jsonl

lint: $(STAMP) ## Check style, formatting, types and the import contracts.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict src
	@$(BIN)/lint-imports

format: $(STAMP) ## Rewrite the files as `make lint` wants them, where a tool can.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(STAMP) ## Run the benchmarks against peers and limits (ARGS="--quick" for a short run).
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@$(BIN)/python benchmarks/run.py $(ARGS)

hooks: $(STAMP) ## Install the pre-commit hooks.
	@$(BIN)/pre-commit install

clean: ## Remove build products and caches, compiled kernels included.
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## Remove the environment too.
	@rm -rf $(VENV)
