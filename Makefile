# The commands of developers and of CI. `make help` lists them.
# ARGS passes options to the program of a command: make test ARGS="-k lease", make demo ARGS="--nodes 50".

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := $(wildcard farrier agent tests bench tools examples)
AGENT := farrier/agent/farrier-agent.pyz
PYTEST := $(BIN)/python -m pytest
# `make check` runs tests/architecture. Tests wait for half of their time, so there are more workers than many machines have cores.
# The test of a real machine runs alone: beside other tests, the machine would boot for minutes.
TESTS := $(PYTEST) --ignore=tests/architecture --ignore=tests/machine
# A test that fails beside others (pytest's exit code 1) runs again alone, and that decides: on two cores, the programs of
# several tests can keep each other waiting for longer than any of them is patient. The options of xdist are those of
# test-all: --dist=loadgroup appends a test's group to its id, so without it pytest would find no test that failed, and
# run all.
AGAIN := { [ "$$?" = 1 ] && echo "the tests that failed run again, alone" && \
	$(PYTEST) --last-failed --last-failed-no-failures=none --numprocesses=1 --dist=loadgroup; }
ARGS ?=
# pytest rewrites every test module, which takes as long as hundreds of tests, so the rewritten modules are cached.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter that is new enough; PYTHON=/path/to/python overrides the search.
PYTHON ?= $(firstword $(foreach candidate,python3 python3.14 python3.13 python3.12 python3.11,\
	$(shell $(candidate) -c 'import sys; sys.version_info >= (3, 11) and print("$(candidate)")' 2>/dev/null)))

.PHONY: help install agent test test-all test-machine check lint format-check types imports docs-check architecture docs docs-site docs-serve format demo pictures bench clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

install: $(STAMP) $(AGENT) ## create .venv with farrier and the development tools

$(STAMP): pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
		echo "farrier needs Python 3.11 or newer; found: $$(python3 --version 2>&1 || true)." >&2; \
		echo "Install Python 3.11 or newer, and run: make install PYTHON=/path/to/python3.11" >&2; exit 1; \
	fi
	@if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "$(PYTHON) has no venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	fi
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --editable '.[dev]'
	@touch $@

agent: install ## build farrier-agent.pyz, which machines download, and print its SHA-256
	@$(BIN)/python agent/build_agent.py

# An installation builds the archive, too; here it follows changes of the sources.
$(AGENT): $(STAMP) agent/build_agent.py $(wildcard agent/farrier_agent/*.*)
	@$(BIN)/python agent/build_agent.py >/dev/null
	@touch $@

test: install ## run the tests of every promise except those of whole programs; PostgreSQL comes with the Python packages
	@$(TESTS) --ignore=tests/e2e --numprocesses=4 --hypothesis-profile=short -m "not full" $(ARGS) || $(AGAIN)

# One worker runs tests of whole programs. Their timing depends on the CPU, so there are fewer workers than for `make test`.
test-all: install ## run every test, with all cases of each matrix, PostgreSQL 15, programs, and a real machine
	@$(TESTS) --numprocesses=3 --dist=loadgroup $(ARGS) || $(AGAIN)
	@$(if $(strip $(ARGS)),true,$(MAKE) --no-print-directory test-machine)

test-machine: install ## boot a real machine in QEMU, and run its agent (needs Debian packages)
	@$(PYTEST) tests/machine $(ARGS)

check: install lint format-check types imports docs-check architecture ## run every check of the sources: lints, types, imports, generated docs

lint: install
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/vulture
	@$(BIN)/hadolint Dockerfile

format-check: install
	@$(BIN)/ruff format --check $(SOURCES)

types: install
	@$(BIN)/mypy $(SOURCES)

imports: install
	@$(BIN)/lint-imports

docs-check: install
	@$(BIN)/python -m tools.generate_docs --check

# Rules for every file, and for the SQL statements on a real schema.
architecture: install
	@$(PYTEST) -q tests/architecture

docs: install ## generate the parts of the documentation that come from the code, and the dashboards
	@$(BIN)/python -m tools.generate_docs
	@$(BIN)/python -m tools.dashboards

docs-site: install ## build the documentation site in site/; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

docs-serve: install ## serve the documentation site at http://127.0.0.1:8000, and build it again after each change
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

format: install ## format the sources with ruff
	@$(BIN)/ruff check --fix $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)

demo: install ## run a simulated fleet on an embedded PostgreSQL
	@$(BIN)/farrier demo $(ARGS)

pictures: install ## record the demo and its web pages for the README (needs chromium)
	@$(BIN)/python -m tools.pictures $(ARGS)

bench: install ## run the benchmarks (make bench ARGS="--only sweep --json")
	@$(BIN)/python -m bench $(ARGS)

clean: ## remove everything that make creates
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
