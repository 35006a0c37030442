# make demo      a verdict on a fresh machine: needs Python 3.10 or newer and a package index
# make test      all tests            make lint      ruff, mypy, import-linter
# make bench     ratios of whole processes and of the hot paths, each within one run
# make help      the rest

.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
PYTHON_LOWER ?= $(shell for p in python3.10 $(PYTHON); do $$p -c pass 2>/dev/null && echo $$p && break; done)
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
LOWER := .venv-lower
PIP := -m pip --disable-pip-version-check --quiet
TEST_TOOLS := ".[test]"
BENCHES := $(wildcard tests/benchmarks/bench_*.py)

N ?= 50
SEED ?= 1

.PHONY: help demo test test-lower lint format bench campaign models sessions screenshots clean

help: ## show what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 18

# What is installed hangs on pyproject.toml alone: the code itself is an editable install.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "npudbg needs Python 3.10 or newer; say which with make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "$(PYTHON) cannot make a venv (on Debian: apt-get install python3-venv)" >&2; exit 2; }
	@touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.made
	@$(BIN)/python $(PIP) install --editable .
	@touch $@

$(VENV)/.tools: pyproject.toml | $(VENV)/.made
	@$(BIN)/python $(PIP) install --editable ".[test,lint]"
	@touch $@ $(VENV)/.installed

.cache/.models: tests/public_models.py | $(VENV)/.made
	@$(BIN)/python tests/public_models.py
	@touch $@

demo: $(VENV)/.installed ## run a bundled model whose fault is real, and judge it
	@$(BIN)/npudbg demo --headless; code=$$?; \
		if [ $$code -gt 1 ]; then exit $$code; fi; \
		echo; echo "npudbg ended with exit code $$code (1: an error was found)."

test: $(VENV)/.tools .cache/.models ## run all tests
	@NPUDBG_REQUIRE_MODELS=1 $(BIN)/python -m pytest -n $(WORKERS) $(TESTFLAGS)

$(LOWER)/.made: pyproject.toml tests/lower_bounds.py | $(VENV)/.tools
	@rm -rf $(LOWER)
	@$(PYTHON_LOWER) -m venv $(LOWER)
	@$(BIN)/python tests/lower_bounds.py > $(LOWER)/pins.txt
	@$(LOWER)/bin/python $(PIP) install --constraint $(LOWER)/pins.txt --editable $(TEST_TOOLS)
	@touch $@

test-lower: $(LOWER)/.made ## run the unit tests with the lowest versions that pyproject.toml allows
	@NPUDBG_TEST_OLD_PYTHON=$(abspath $(LOWER))/bin/python $(LOWER)/bin/python -m pytest -n $(WORKERS) \
		-p no:cacheprovider tests/unit $(TESTFLAGS)

lint: $(VENV)/.tools ## ruff, mypy and the import contracts, all four whatever one says
	@code=0; \
		$(BIN)/ruff check . || code=1; \
		$(BIN)/ruff format --check . || code=1; \
		$(BIN)/mypy || code=1; \
		$(BIN)/lint-imports || code=1; \
		exit $$code

format: $(VENV)/.tools ## let ruff mend what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.tools .cache/.models ## print ratios, each measured within one run
	@for file in $(BENCHES); do echo "== $$file"; $(BIN)/python $$file || exit; done

campaign: $(VENV)/.tools .cache/.models ## inject N random faults and count the exact verdicts
	@$(BIN)/python tests/campaign/campaign.py --n $(N) --seed $(SEED)

models: .cache/.models ## fetch the public models that tests use

sessions: $(VENV)/.installed ## make the saved sessions of sessions/ again
	@$(BIN)/python sessions/make.py

screenshots: $(VENV)/.installed ## take the pictures of screenshots/ again
	@$(BIN)/python screenshots/make.py

clean: ## remove what was made, the fetched models too
	rm -rf $(VENV) $(LOWER) .cache build dist .pytest_cache .mypy_cache .ruff_cache \
		.hypothesis .benchmarks .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
