# `make demo` and `make test` need Python 3.11 or newer and make, nothing else: they build .venv.

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# The first of these that runs and is new enough; `make PYTHON=/path/to/python` overrides it.
PYTHON ?= $(shell for candidate in python3.11 python3 python3.12 python3.13 python3.14; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& echo $$candidate && break; done)

.DEFAULT_GOAL := help
.PHONY: help demo test lint types docs tests bench validity format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp-demo ## records to report on the Berkeley admissions data, into build/demo
	$(BIN)/dpcontingency demo --output build/demo

# Four steps in this order whatever -j says, so that pytest's closing line comes last. The vignettes
# run once, in `docs`: tests/docs builds the site again, which reads only what has changed since.
test: ## all checks: lint, types, vignettes and documentation, tests
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory tests

lint: $(VENV)/.stamp-test ## ruff: rules and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.stamp-test ## mypy, strict on the package
	$(BIN)/mypy

docs: $(VENV)/.stamp-test ## run the vignettes and build the site, warnings as errors, into build/docs
	$(BIN)/python -m sphinx -W --keep-going -n -q -j 2 docs build/docs

# A file stays on one process, so that each server of tests/test_engines.py starts once.
tests: $(VENV)/.stamp-test ## pytest on two processes; make tests ARGS="-k gdp" for some of them
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

# One after the other, so that their clocks are not in each other's way.
bench: $(VENV)/.stamp-test ## the benchmarks, about 40 minutes, into benchmarks/results
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/tabulation.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/utility.py
	$(BIN)/python benchmarks/utility_models.py
	$(BIN)/python benchmarks/utility_margins.py

validity: $(VENV)/.stamp-test ## size, coverage and power by simulation, about 40 minutes
	$(BIN)/python benchmarks/validity.py
	$(BIN)/python benchmarks/power.py
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/measures.py
	$(BIN)/python benchmarks/saddlepoint.py

format: $(VENV)/.stamp-test ## let ruff mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## remove what builds, demos and tools left (not .venv)
	rm -rf build dist docs/reference/generated .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +

# A stamp says what .venv holds: `demo` the package, `test` the package and its test tools.
$(VENV)/.stamp-demo: pyproject.toml | $(BIN)/python
	@echo "Installing dpcontingency into $(VENV) (a few minutes, once)"
	$(PIP) --editable .
	@touch $@

$(VENV)/.stamp-test: pyproject.toml | $(BIN)/python
	@echo "Installing dpcontingency and its test tools into $(VENV) (a few minutes, once)"
	$(PIP) --editable '.[test]'
	@touch $(VENV)/.stamp-demo $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
		echo "No Python 3.11 or newer on PATH: install one, or name it with make PYTHON=/path/to/python." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is not a Python 3.11 or newer: name one with make PYTHON=/path/to/python." >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: install the package python3-venv (Debian, Ubuntu: apt-get install python3-venv), then run make again." >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV)
