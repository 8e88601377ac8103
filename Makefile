# Everything starts from Python 3.11+, pip and make; nothing is installed outside .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow test-torch bench lint real-data experiments clean help

help:
	@echo "make demo       the whole story on a synthetic table (about a minute with set-up)"
	@echo "make test       formatting, lint, types and tests"
	@echo "make test-slow  long statistical and scale runs"
	@echo "make test-torch the neural learner's tests; installs PyTorch"
	@echo "make bench      ours against what one would do instead, as ratios"
	@echo "make experiments  docs/experiments.md: the paper's tables and figures (under an hour)"
	@echo "make real-data  the README's table; needs LABELDP_REAL_DATA=DIR"

demo: $(VENV)/base
	@echo "== labeldp demo: a synthetic table, its private release and a fit on it"
	@$(BIN)/labeldp demo

test: lint
	@echo "== tests"
	@$(BIN)/python -m pytest -n auto

lint: $(VENV)/dev
	@echo "== formatting and lint"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@echo "== types"
	@$(BIN)/mypy

test-slow: $(VENV)/dev
	@echo "== long statistical and scale runs"
	@$(BIN)/python -m pytest -m slow

test-torch: $(VENV)/dev
	@echo "== the neural learner (installs PyTorch)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(BIN)/python -m pytest -n auto tests/learners

bench: $(VENV)/dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(BIN)/python benchmarks/neural_bags.py

real-data: $(VENV)/dev
	@$(BIN)/python experiments/real_data.py --write README.md

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

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
