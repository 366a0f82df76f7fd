# Everything a clone needs: `make demo` shows it, `make test` tests it. Both set up .venv first, which needs
# Python 3.11+ and Java 17+ and takes a few minutes the first time; after that it does nothing.
# Tests run in as many processes as there are cores (JOBS=N for another number), at most four: some have a JVM each, and
# the examples of a page run in one process, which the first shares of so few are long enough for.

PYTHON ?=
NAME ?= start
ARGS ?=
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
PROCESSES = -n $(JOBS) --maxprocesses 4
BIN := .venv/bin
export PYTHON JOBS

.DEFAULT_GOAL := help
.PHONY: help setup demo test check cover soak bench wheel wheel-test lock test-ranges clean distclean

help:
	@echo "make demo         set up, then show views that stay fresh while data stream in (ARGS='--sf 0.1')"
	@echo "make test         set up, then lint, types, layers and all tests but the longest (ARGS='-k name')"
	@echo "make check        the fast part of it: no Spark, no servers, nothing slow"
	@echo "make cover        all tests with a summary of what they cover"
	@echo "make soak         the long tests"
	@echo "make bench        one benchmark (NAME=start ARGS='--quick')"
	@echo "make setup        make .venv, or bring it up to date"
	@echo "make .venvs/NAME  make an environment of its own from scripts/venvs/NAME.txt"
	@echo "make wheel        build the wheel into dist/; make wheel-test tries it in an empty environment"
	@echo "make lock         write scripts/locks anew: the versions that all environments are made from"
	@echo "make test-ranges  the fast tests with the newest and with the oldest versions that pyproject.toml allows"
	@echo "make clean        remove what the above left behind; make distclean the environments too"

setup:
	@scripts/preflight.sh java
	@scripts/venv.sh

demo: setup
	@$(BIN)/everfresh demo $(ARGS)

.PHONY: lint
lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check src tests conftest.py
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint .venvs/tpc
	$(BIN)/pytest $(PROCESSES) -m "not soak and not spark" $(ARGS)
	$(BIN)/pytest $(PROCESSES) --dist loadfile -m "spark and not soak" $(ARGS)

check: lint
	$(BIN)/pytest $(PROCESSES) -m "not spark and not server and not slow and not soak" $(ARGS)

cover: setup .venvs/tpc
	$(BIN)/pytest -m "not soak" --cov --cov-report=term:skip-covered $(ARGS)

soak: setup .venvs/tpc
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -m "soak or slow" $(ARGS)

bench: setup
	@$(BIN)/everfresh bench $(NAME) $(ARGS)

wheel: setup
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

wheel-test: setup
	scripts/wheel_test.sh $(ARGS)

.PHONY: FORCE
.venvs/%: FORCE
	@scripts/venv.sh $*

lock: .venvs/lock
	scripts/lock.sh

test-ranges: .venvs/lock
	scripts/test_ranges.sh newest $(ARGS)
	scripts/test_ranges.sh oldest $(ARGS)

clean:
	rm -rf dist build htmlcov .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf spark-warehouse metastore_db derby.log artifacts
	find src tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv .venvs
