# Everything a checkout needs, with git, make, Python >= 3.11 and (for demo and test) Java >= 17.
# All paths are relative to this folder, whose name may hold spaces.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# Seen by the recipes below; tools that are looked up by name are the environment's.
PYTEST := $(PY) -m pytest --import-mode=importlib --rootdir=tests -c pyproject.toml
# --system-certs: uv's own certificates refuse a company's or a sandbox's proxy.
UV := $(VENV)/bin/uv --system-certs --no-python-downloads
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# ---------------------------------------------------------------------------------------------
# Environment. Each step leaves a stamp file, so that a repeat does nothing.

.PHONY: venv
venv: $(VENV)/.interlock ## Make .venv from requirements/constraints.txt (PYTHON=/path/to/python3 chooses another)

$(VENV)/.python:
	@command -v "$(PYTHON)" >/dev/null || { echo "make: no $(PYTHON) found; Interlock needs Python 3.11 to 3.14: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; v = sys.version_info[:2]; v >= (3, 11) and v < (3, 15) or sys.exit("make: Interlock needs Python 3.11 to 3.14 and %s is %d.%d; say make PYTHON=/path/to/python3" % (sys.executable, v[0], v[1]))'
	@echo "== environment in $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv --clear $(VENV) || { echo "make: $(PYTHON) -m venv failed; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@awk '/^[a-z0-9]/ {uv = /^uv==/} uv' requirements/constraints.txt > $(VENV)/uv.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $(VENV)/uv.txt
	@touch $@

$(VENV)/.packages: requirements/constraints.txt $(VENV)/.python
	@echo "== packages of requirements/constraints.txt (about half a minute when none is cached)"
	@$(UV) pip install --quiet --python $(PY) --require-hashes --requirement requirements/constraints.txt
	@touch $@

# --no-build-isolation: the build backend is the pinned one, and nothing is fetched.
$(VENV)/.interlock: pyproject.toml $(VENV)/.packages
	@$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .
	@touch $@

# Brought up to date only on demand: newer versions are a decision, and a commit of their own.
.PHONY: constraints
constraints: $(VENV)/.interlock ## Resolve the ranges of pyproject.toml anew into requirements/constraints.txt (UPGRADE=1: to the newest)
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  $(if $(UPGRADE),--upgrade) --custom-compile-command "make constraints" \
	  --extra dev pyproject.toml requirements/constraints.in --output-file requirements/constraints.txt

.PHONY: java
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	command -v "$$java" >/dev/null || { echo "make: no $$java found; the broker and Spark need Java 17: install it (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME" >&2; exit 1; }; \
	version="$$("$$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)"; \
	[ "$${version:-0}" -ge 17 ] || { echo "make: $$java is version $${version:-unknown}; the broker and Spark need Java 17: set JAVA_HOME to it" >&2; exit 1; }

# ---------------------------------------------------------------------------------------------
# Checks and tests

# `make -k check` tells all problems at once.
.PHONY: check check-lint check-format check-types check-imports
check: check-lint check-format check-types check-imports ## Lint, format, types, and the imports between the rooms

check-lint: $(VENV)/.interlock
	$(VENV)/bin/ruff check .

check-format: $(VENV)/.interlock
	$(VENV)/bin/ruff format --check .

# mypy finds the package `interlock` through a link to this folder: editable installs are an import
# hook, which static tools cannot follow, or a farm of links, which misses new files.
check-types: $(VENV)/.interlock
	@mkdir -p .build/typed && ln -sfn ../.. .build/typed/interlock
	MYPYPATH=.build/typed $(PY) -m mypy -p interlock

check-imports: $(VENV)/.interlock
	@$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

.PHONY: format
format: $(VENV)/.interlock ## Format and fix what ruff can fix
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

# Each file is one process's. The long ones come first.
TEST_PROCESSES ?= 2
.PHONY: test
test: java check ## Check, then all tests on TEST_PROCESSES=2 (starts real brokers and Spark by itself)
	$(PYTEST) -n $(TEST_PROCESSES) --max-worker-restart 0 --dist loadfile --no-loadscope-reorder \
	  tests/integration tests/simulation tests/contract tests/invariants tests/unit

.PHONY: test-unit
test-unit: $(VENV)/.interlock ## Unit tests: no broker, no Java
	$(PYTEST) tests/unit

# An environment for each, beside that of `make venv`.
.PHONY: test-pythons
test-pythons: ## Unit tests on other Pythons (PYTHONS="python3.12 /path/to/python3.13")
	@[ -n "$(PYTHONS)" ] || { echo 'make: say which: make test-pythons PYTHONS="python3.12 /path/to/python3.13"' >&2; exit 1; }
	@for python in $(PYTHONS); do \
	  version="$$("$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"; \
	  echo "== unit tests on Python $$version"; \
	  $(MAKE) VENV=".build/python$$version" PYTHON="$$python" test-unit; \
	done

# The oldest Airflow that is supported, in an environment of its own: with the packages of requirements/constraints.txt as far
# as it allows.
AIRFLOW_OLDEST ?= 3.3.0
.PHONY: test-airflow-oldest test-airflow
test-airflow-oldest: java ## What meets Airflow, tested on the oldest one that is supported (AIRFLOW_OLDEST=3.3.0)
	@$(MAKE) VENV=".build/airflow-$(AIRFLOW_OLDEST)" test-airflow

test-airflow: $(VENV)/.airflow-$(AIRFLOW_OLDEST)
	@$(PY) -c 'from importlib.metadata import version; print("== Airflow", version("apache-airflow-core"))'
	$(PYTEST) tests/integration/triggers tests/integration/plugin tests/unit/operators tests/unit/triggers \
	  tests/unit/plugin tests/unit/testing tests/unit/dags_examples tests/unit/docs

$(VENV)/.airflow-$(AIRFLOW_OLDEST): $(VENV)/.interlock
	@$(UV) pip install --quiet --python $(PY) "apache-airflow==$(AIRFLOW_OLDEST)"
	@touch $@

# What the protocols lean on, asked of another broker than the newest that is claimed.
BROKER_OLDEST ?= 3.3.2
.PHONY: test-broker-oldest
test-broker-oldest: java $(VENV)/.interlock ## The contract suite on the oldest broker that is claimed (BROKER_OLDEST=3.3.2)
	BROKER="$(BROKER_OLDEST)" $(PYTEST) tests/contract

# Rounds of cases that no run has seen; a failing one says how to have its cases again.
FUZZ_SECONDS ?= 300
FUZZ_EXAMPLES ?= 10000
.PHONY: fuzz fuzz-step fuzz-forms
fuzz: fuzz-step fuzz-forms ## Search for faults with new random cases (FUZZ_SECONDS=300, FUZZ_EXAMPLES=10000 a round)

fuzz-step: $(VENV)/.interlock
	@end=$$((SECONDS + $(FUZZ_SECONDS))); \
	while ((SECONDS < end)); do \
	  seed=$(or $(FUZZ_SEED),$$((RANDOM * 32768 + RANDOM))); \
	  echo "== step against its oracle: FUZZ_SEED=$$seed FUZZ_EXAMPLES=$(FUZZ_EXAMPLES)"; \
	  FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(PYTEST) -q --hypothesis-seed=$$seed tests/unit/conditions/property \
	    --ignore=tests/unit/conditions/property/test_faults.py || \
	    { echo "make: to see this again: make fuzz-step FUZZ_SEED=$$seed FUZZ_EXAMPLES=$(FUZZ_EXAMPLES)" >&2; exit 1; }; \
	  [ -z "$(FUZZ_SEED)" ] || break; \
	done

# What reads text, JSON and states, under limits of memory and processor time; the slowest inputs as JSON lines.
fuzz-forms: $(VENV)/.interlock
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) $(PY) -m tests.unit.conditions.forms.fuzz

# Engines in a simulated Kafka; 10,000 worlds are among the tests.
.PHONY: simulate
simulate: $(VENV)/.interlock ## Search for interleavings that break the engine's protocols (SEEDS=100000, SEED=n shows one)
	@$(PY) -m tests.simulation.hunt $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),100000) --first $(or $(FIRST),10000))

# Another seed is another schedule of faults and another load; without one a new seed is drawn and told.
.PHONY: chaos
chaos: java $(VENV)/.interlock ## Engines on a real broker under load and faults, judged from the log (SECONDS=600 SEED=n BROKER=4.2.2)
	@$(PY) -m tests.chaos --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)) $(if $(BROKER),--broker $(BROKER)) $(CHAOS)

# Whether the oracle sees what it is there for; 40 s and a verdict for each of the faults of tests/chaos/plants.py.
.PHONY: chaos-plants
chaos-plants: java $(VENV)/.interlock ## Runs of chaos with a fault in the engine itself: each must be seen (ONLY="skip an offset")
	@$(PY) -m tests.chaos.planted $(if $(ONLY),--only "$(ONLY)")

# Airflow's own processes, on PostgreSQL and a real broker. HA="--only idle": what 1,000 waits cost a triggerer.
.PHONY: ha burst
ha: java $(VENV)/.interlock ## Two triggerers on PostgreSQL under load and faults, judged (12 min; SEED=n HA="--triggerers 3", HA="--only idle")
	@$(PY) -m tests.ha $(if $(SEED),--seed $(SEED)) $(HA)

burst: java $(VENV)/.interlock ## 1,000 waits met at one moment beside 1,000 stock triggers, and what they cost (17 min)
	@$(PY) -m tests.ha --only burst $(BURST)

# Another seed is other moments; without one a new seed is drawn and told.
.PHONY: archive-kill
archive-kill: java $(VENV)/.interlock ## The archive killed while events arrive: what it has is what was sent (EVENTS=200000 KILLS=5 SEED=n)
	@ARCHIVE_EVENTS=$(or $(EVENTS),200000) ARCHIVE_KILLS=$(or $(KILLS),5) ARCHIVE_SEED=$(SEED) $(PYTEST) -q \
	  tests/integration/spark/pipeline/test_archive_killed.py -k although

comma := ,
BENCH_OUTPUT = $(if $(OUTPUT),--output $(OUTPUT))
# Results are kept in .build/bench/results.jsonl. `make bench-list` tells the sizes that each question takes.
.PHONY: bench bench-engine bench-spark bench-conditions bench-list bench-guard bench-docs
bench: java $(VENV)/.interlock ## How fast everything is, beside a baseline of the same run, half an hour (ONLY=engine,hooks: questions or groups; OUTPUT=json)
	@$(PY) -m bench $(subst $(comma), ,$(ONLY)) $(BENCH_OUTPUT)

bench-engine: ## `make bench ONLY=engine,waits,takeover`
bench-spark: ## `make bench ONLY=spark`
bench-conditions: ## `make bench ONLY=conditions`
bench-engine bench-spark bench-conditions: java $(VENV)/.interlock
	@$(PY) -m bench $(or $(subst $(comma), ,$(ONLY)),$(patsubst bench-%,%,$(subst bench-engine,engine waits takeover,$@))) $(BENCH_OUTPUT)

.PHONY: bench-full
bench-full: java $(VENV)/.interlock ## Events a second of all combinations of the factors: hours (EVENTS=120000)
	@$(PY) -m bench combinations $(BENCH_OUTPUT)

bench-docs: $(VENV)/.interlock ## docs/understand/benchmarks.md and its pictures, from what `make bench` has kept
	@$(PY) -m bench.render

.PHONY: bench-profile
bench-profile: java $(VENV)/.interlock ## Where the engine's thread spends its time on a backlog (PROFILE="--parts 1")
	@$(PY) -m bench.profile $(PROFILE)

bench-list: $(VENV)/.interlock ## The questions of `make bench`, with their groups and sizes
	@$(PY) -m bench --list

bench-guard: $(VENV)/.interlock ## Count the instructions of the hot path, and take them over for the test that guards them
	@$(PY) -m bench.guard --write

# Each run of the job has 512 MB for driver and executor together.
.PHONY: backtest-scale
backtest-scale: java $(VENV)/.interlock ## The backtest in 512 MB equals a loop of `step`, and how fast it is (EVENTS=1000000 KEYS=100000 CORES=1,2 CONDITION=...)
	@EVENTS=$(or $(EVENTS),1000000) $(PY) -m bench backtest $(BENCH_OUTPUT)

# ---------------------------------------------------------------------------------------------
# Running

.PHONY: demo
demo: java $(VENV)/.interlock ## The main job end to end (KEEP=1 leaves it up; FAULT=drop-rates|wrong-date|duplicate-orders)
	@KEEP='$(KEEP)' FAULT='$(FAULT)' $(PY) -m demo

.PHONY: broker
broker: java $(VENV)/.interlock ## A Kafka broker for development until Ctrl-C (BROKER="--port 9092 --directory DIR")
	@$(PY) -m airflow interlock broker $(BROKER)

.PHONY: dist
dist: $(VENV)/.interlock ## Build wheel and sdist into dist/
	@rm -rf dist build
	$(PY) -m build --no-isolation --outdir dist .

.PHONY: clean
clean: ## Remove all that make made here, .venv too (the broker's jars stay in the user's cache)
	rm -rf .venv .build build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
