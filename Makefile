# Everything a checkout needs, with git, make, Python >= 3.11 and (for demo and test) Java >= 17.
# All paths are relative to this folder, whose name may hold spaces.

# The distribution's Python if it is suitable: it is built with profile-guided optimisation, unlike pyenv's, and
# takes two thirds of the time. Else the python3 on PATH. Before 3.11.5, a garbage collection during ast.parse
# can make it fail (python/cpython#106905).
suitable = import sys, ensurepip, venv; sys.exit(not (3, 11, 5) <= sys.version_info < (3, 15))
PYTHON ?= $(shell /usr/bin/python3 -c '$(suitable)' 2>/dev/null && echo /usr/bin/python3 || echo python3)
VENV := .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest --import-mode=importlib --rootdir=tests -c pyproject.toml
# --system-certs: uv's own certificates refuse a company's or a sandbox's proxy.
UV := $(VENV)/bin/uv --system-certs --no-python-downloads
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
comma := ,
MAKEFLAGS += --no-builtin-rules --no-print-directory
# Without bytecode each of the many Airflows that tests start compiles a thousand modules: two seconds of a core.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---------------------------------------------------------------------------------------------
# Environment. Each step leaves a stamp file, so that a repeat does nothing.

define require-python
command -v "$(PYTHON)" >/dev/null || { echo "make: no $(PYTHON) found; Interlock needs Python 3.11 to 3.14: make PYTHON=/path/to/python3" >&2; exit 1; }; \
"$(PYTHON)" -c 'import sys; v = sys.version_info[:2]; v >= (3, 11) and v < (3, 15) or sys.exit("make: Interlock needs Python 3.11 to 3.14 and %s is %d.%d; say make PYTHON=/path/to/python3" % (sys.executable, v[0], v[1]))'
endef
no-venv = echo "make: $(PYTHON) -m venv failed; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1

# The lines of one package, with hashes.
pinned = awk '/^[a-z0-9]/ {wanted = /^$(1)==/} wanted' requirements/constraints.txt

.PHONY: venv
venv: $(VENV)/.interlock ## Make .venv from requirements/constraints.txt (PYTHON=/path/to/python3 chooses another)

$(VENV)/.python:
	@$(require-python)
	@echo "== environment in $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv --clear $(VENV) || { $(no-venv); }
	@$(call pinned,uv) > $(VENV)/uv.txt
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

# Runs only on demand: newer versions are a decision, and a commit of their own.
.PHONY: constraints
constraints: $(VENV)/.interlock ## Resolve the version ranges of pyproject.toml into requirements/constraints.txt again (UPGRADE=1: to the newest)
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  $(if $(UPGRADE),--upgrade) --custom-compile-command "make constraints" \
	  --all-extras pyproject.toml --output-file requirements/constraints.txt

.PHONY: java
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	command -v "$$java" >/dev/null || { echo "make: no $$java found; the broker and Spark need Java 17: install it (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME" >&2; exit 1; }; \
	version="$$("$$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)"; \
	[ "$${version:-0}" -ge 17 ] || { echo "make: $$java is version $${version:-unknown}; the broker and Spark need Java 17: set JAVA_HOME to it" >&2; exit 1; }

# ---------------------------------------------------------------------------------------------
# Checks and tests

# `make -k check` reports all problems at once.
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

# Two cores: three processes whose tests wait for services, and one that computes meanwhile. A file, or a group
# of files, runs in one process (tests/kit/scheduling.py).
TEST_PROCESSES ?= 4
# Tests start dozens of brokers and Spark drivers: with an archive of its classes each takes two thirds of the time.
TESTED = KAFKA_OPTS="$$($(PY) -m tests.kit.class_data broker)" SPARK_SUBMIT_OPTS="$$($(PY) -m tests.kit.class_data spark)" $(PYTEST) -n $(TEST_PROCESSES) --max-worker-restart 0 --no-loadscope-reorder --durations=25
# In a clean clone one process compiles the modules first: otherwise each of TEST_PROCESSES would compile them.
.PHONY: test
test: java $(VENV)/.interlock ## Check and all tests but the long ones (starts brokers, Airflow and Spark by itself)
	@$(MAKE) -s promtool || true # the tests that need it fail and say so
	@mkdir -p .build; { code=0; make -k check > .build/check.log 2>&1 || code=1; make try-ui > .build/ui.log 2>&1 || code=1; exit $$code; } & checks=$$!; \
	[ -e tests/__pycache__ ] || $(PYTEST) --collect-only -qq tests > /dev/null || true; \
	code=0; $(TESTED) tests || code=$$?; \
	wait $$checks || code=1; echo "== make try-ui, which ran beside the tests"; cat .build/ui.log >&2; \
	echo "== make check, which ran beside the tests"; cat .build/check.log; exit $$code

.PHONY: test-unit
test-unit: $(VENV)/.interlock ## Unit tests: no broker, no Java
	$(PYTEST) tests/unit

# Without root, and without the server's service that the package would start. What is on PATH is not fetched.
.PHONY: promtool
promtool: $(if $(shell command -v promtool && command -v prometheus),,.build/tools/promtool) ## promtool of Debian's package prometheus, for the tests of the alert rules (needs apt-get)

.build/tools/promtool:
	@command -v apt-get >/dev/null || { echo "make: no promtool on PATH and no apt-get to fetch Debian's: install promtool and prometheus of Prometheus 2.42 or later" >&2; exit 1; }
	@rm -rf .build/prometheus && mkdir -p .build/tools .build/prometheus
	@cd .build/prometheus && apt-get download -qq -o APT::Sandbox::User="$$(id -un)" prometheus && dpkg-deb -x prometheus_*.deb .
	@mv .build/prometheus/usr/bin/prometheus .build/prometheus/usr/bin/promtool .build/tools/ && rm -rf .build/prometheus

include make/long.mk make/bench.mk make/ui.mk

# ---------------------------------------------------------------------------------------------
# Running

.PHONY: demo
demo: java $(VENV)/.interlock ## The demo: the main job end to end (KEEP=1 leaves it up; FAULT=drop-rates|wrong-date|duplicate-orders)
	@KEEP='$(KEEP)' FAULT='$(FAULT)' $(PY) -m demo

.PHONY: broker
broker: java $(VENV)/.interlock ## A Kafka broker for development until Ctrl-C (BROKER="--port 9092 --directory DIR")
	@$(PY) -m airflow interlock broker $(BROKER)

# Needs the build backend alone, not the environment of `make venv`: a user who installs the wheel needs nothing else.
BACKEND := .build/backend
.PHONY: dist
dist: $(BACKEND)/.ready ## Build wheel and sdist into dist/ (needs only Python and the build backend)
	@rm -rf dist build
	@$(BACKEND)/bin/python -c 'from setuptools import build_meta as backend; backend.build_sdist("dist"); backend.build_wheel("dist")' > $(BACKEND)/log 2>&1 || { cat $(BACKEND)/log >&2; exit 1; }
	@rm -rf build airflow_interlock.egg-info
	@ls dist/*

$(BACKEND)/.ready: requirements/constraints.txt
	@$(require-python)
	@"$(PYTHON)" -m venv --clear $(BACKEND) || { $(no-venv); }
	@$(call pinned,setuptools) > $(BACKEND)/setuptools.txt
	@$(BACKEND)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $(BACKEND)/setuptools.txt
	@touch $@

.PHONY: clean
clean: ## Remove everything that make has created here, .venv too (the broker's jars stay in the user's cache)
	rm -rf .venv .build build dist ui/node_modules *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
