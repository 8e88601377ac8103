# Everything starts from Python 3.11+, pip and make; nothing is installed outside .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The Spark engine is tested wherever Java 17+ is found.
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
JAVA_VERSION := $(shell $(JAVA) -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
SPARK := $(if $(shell test "0$(JAVA_VERSION)" -ge 17 && echo yes),$(VENV)/spark,no-java)

# Tests start a hundred processes, and each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: no-java demo test test-slow test-torch bench bench-docs lint real-data peers experiments clean help

help:
	@echo "make demo       the whole story on a synthetic table (about a minute with set-up)"
	@echo "make test       formatting, lint, types and tests"
	@echo "make test-slow  long statistical and scale runs"
	@echo "make test-torch the neural learner's tests; installs PyTorch"
	@echo "make bench      ours against what one would do instead, as ratios (about 5 minutes)"
	@echo "make bench-docs the same at larger sizes, written into docs/benchmarks.md"
	@echo "make experiments  docs/experiments.md: the paper's tables and figures (about 10 minutes)"
	@echo "make real-data  the README's table; needs LABELDP_REAL_DATA=DIR"
	@echo "make peers      docs/peers.md: beside what one could do instead; needs the same (about 10 minutes)"

demo: $(VENV)/base
	@echo "== labeldp demo: a synthetic table, its private release and a fit on it"
	@$(BIN)/labeldp demo

test: lint $(SPARK)
	@echo "== tests"
	@$(BIN)/python -m pytest -n auto --ignore=tests/engines --ignore=tests/contracts/test_engine.py
	@echo "== tests of the engines, in one process since each would start a Spark of its own"
	@$(BIN)/python -m pytest tests/engines tests/contracts/test_engine.py

lint: $(VENV)/dev
	@echo "== formatting and lint"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@echo "== types"
	@$(BIN)/mypy

test-slow: $(VENV)/dev $(SPARK)
	@echo "== long statistical and scale runs"
	@$(BIN)/python -m pytest -m slow

test-torch: $(VENV)/dev
	@echo "== the neural learner (installs PyTorch)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(BIN)/python -m pytest -n auto tests/learners

bench: $(VENV)/bench
	@$(BIN)/python benchmarks/run.py

bench-docs: $(VENV)/bench
	@$(BIN)/python benchmarks/run.py --docs docs/benchmarks.md

real-data: $(VENV)/dev
	@$(BIN)/python -m experiments.real_data --write README.md

peers: $(VENV)/dev
	@$(BIN)/python -m experiments.peers --write docs/peers.md

experiments: $(VENV)/dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(BIN)/labeldp reproduce all --quick --out reproduction --docs docs/experiments.md

$(VENV)/base: pyproject.toml
	@echo "== setting up $(VENV) (first run only)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/dev: $(VENV)/base pyproject.toml
	@echo "== installing the development tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/bench: $(VENV)/dev
	@echo "== installing what the benchmarks compare with into $(VENV), PyTorch included"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench,plots]'
	@touch $@

$(VENV)/spark: $(VENV)/dev
	@echo "== installing Spark into $(VENV) (about 400 MB), since Java $(JAVA_VERSION) is here"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark]'
	@touch $@

no-java:
	@echo "!! JAVA 17+ NOT FOUND: THE SPARK ENGINE IS NOT TESTED HERE (install a JDK 17, set JAVA_HOME)"

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
