# Tests that take long: other versions, random searches, chaos, several triggerers. Included by the Makefile.

# Debian has no package of it. A minute or more: it is compiled.
STATSD_EXPORTER ?= 0.28.0
.PHONY: statsd_exporter
statsd_exporter: .build/tools/statsd_exporter ## statsd_exporter of Prometheus, for the long test of the metrics' names (needs Go)

.build/tools/statsd_exporter:
	@command -v go >/dev/null || { echo "make: no go found, which compiles statsd_exporter: install Go (Debian: apt install golang-go), or put statsd_exporter on PATH" >&2; exit 1; }
	@mkdir -p .build/tools && GOBIN="$(CURDIR)/.build/tools" go install github.com/prometheus/statsd_exporter@v$(STATSD_EXPORTER)

.PHONY: test-long test-marked-long
test-long: java $(VENV)/.interlock ## All that takes long, hours; a table of what ran, its result and time (ONLY=ha,chaos: some of it; RESUME=1: what has not passed at this commit)
	@$(PY) -m tests.long $(if $(RESUME),--resume) $(subst $(comma), ,$(ONLY))

# Nearly every one keeps a core busy with an Airflow, a Spark or an engine.
test-marked-long: TEST_PROCESSES = 2
test-marked-long: java $(VENV)/.interlock ## The tests that are marked `long`: every way a Spark job can end, whole demos (FOLDERS=tests/unit: some of them)
	@$(MAKE) -s promtool statsd_exporter || true # the tests that need them fail and say so
	$(TESTED) -m long $(or $(FOLDERS),tests)

# An environment for each, beside that of `make venv`.
.PHONY: test-pythons
test-pythons: ## Unit tests on other Pythons (PYTHONS="python3.12 /path/to/python3.13")
	@[ -n "$(PYTHONS)" ] || { echo 'make: name the Pythons to test: make test-pythons PYTHONS="python3.12 /path/to/python3.13"' >&2; exit 1; }
	@for python in $(PYTHONS); do \
	  version="$$("$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"; \
	  echo "== unit tests on Python $$version"; \
	  $(MAKE) VENV=".build/python$$version" PYTHON="$$python" test-unit; \
	done

# The oldest supported Airflow, in its own environment: the other packages are those of requirements/constraints.txt
# where this Airflow allows them.
AIRFLOW_OLDEST ?= 3.3.0
.PHONY: test-airflow-oldest test-airflow
test-airflow-oldest: java ## The tests of what uses Airflow, on the oldest supported Airflow (AIRFLOW_OLDEST=3.3.0)
	@$(MAKE) VENV=".build/airflow-$(AIRFLOW_OLDEST)" test-airflow

test-airflow: TEST_PROCESSES = 3
test-airflow: $(VENV)/.airflow-$(AIRFLOW_OLDEST)
	@$(PY) -c 'from importlib.metadata import version; print("== Airflow", version("apache-airflow-core"))'
	$(TESTED) -m "" tests/integration/triggers tests/integration/plugin tests/unit/operators tests/unit/triggers \
	  tests/unit/plugin tests/unit/testing tests/unit/dags_examples tests/unit/docs

$(VENV)/.airflow-$(AIRFLOW_OLDEST): $(VENV)/.interlock
	@$(UV) pip install --quiet --python $(PY) "apache-airflow==$(AIRFLOW_OLDEST)"
	@touch $@

# What the protocols require of a broker, tested on the oldest supported one.
BROKER_OLDEST ?= 3.3.2
.PHONY: test-broker-oldest
test-broker-oldest: java $(VENV)/.interlock ## The contract suite on the oldest supported broker (BROKER_OLDEST=3.3.2)
	BROKER="$(BROKER_OLDEST)" $(PYTEST) tests/contract

# Rounds of new random cases; a failing round prints the command that repeats it.
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

# Fuzzes the readers of text, JSON and states, with limits on memory and time; prints the slowest inputs as JSON.
fuzz-forms: $(VENV)/.interlock
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) $(PY) -m tests.unit.conditions.forms.fuzz

# Real connections to a receiver without Kafka. Prints the command that repeats a failure.
.PHONY: fuzz-http
fuzz-http: $(VENV)/.interlock ## Send hostile requests to the HTTP receiver (FUZZ_SECONDS=300 FUZZ_SEED=n)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) $(PY) -m tests.unit.receiver.fuzz

# Engines in a simulated Kafka. The first seed follows from the commit, so each commit tries other seeds.
.PHONY: simulate
simulate: $(VENV)/.interlock ## Search for interleavings that break the engine's protocols (SEEDS=100000 FIRST=n, SEED=n shows one, CHOOSE=1 writes chosen.json)
	@$(PY) -m $(if $(CHOOSE),tests.simulation.choose,tests.simulation.hunt $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),100000) $(if $(FIRST),--first $(FIRST))))

.PHONY: simulate-deliveries
simulate-deliveries: $(VENV)/.interlock ## The same for deliverers and their sinks (SEEDS=10000 FIRST=n, SEED=n shows one)
	@$(PY) -m tests.simulation.hunt_deliveries $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),10000) $(if $(FIRST),--first $(FIRST)))

# Another seed is another schedule of faults and another load; without one a new seed is drawn and printed.
.PHONY: chaos
chaos: java $(VENV)/.interlock ## Engines on a real broker under load and faults, judged by the records on the bus (SECONDS=600 SEED=n BROKER=4.2.2)
	@$(PY) -m tests.chaos --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)) $(if $(BROKER),--broker $(BROKER)) $(CHAOS)

# Checks the oracle: 40 s and a verdict for each of the faults of tests/chaos/plants.py.
.PHONY: chaos-plants
chaos-plants: java $(VENV)/.interlock ## Runs of chaos with a fault in the engine itself: the oracle must detect each (ONLY="skip an offset")
	@$(PY) -m tests.chaos.planted $(if $(ONLY),--only "$(ONLY)")

# Airflow's own processes, on PostgreSQL and a real broker. HA="--only idle": what 1,000 waits cost a triggerer.
.PHONY: ha burst
ha: java $(VENV)/.interlock ## Two triggerers on PostgreSQL under load and faults, judged (12 min; SEED=n HA="--triggerers 3", HA="--only idle")
	@$(PY) -m tests.ha $(if $(SEED),--seed $(SEED)) $(HA)

burst: java $(VENV)/.interlock ## 1,000 waits met at one moment, compared with 1,000 of Airflow's own triggers: time and cost (17 min)
	@$(PY) -m tests.ha --only burst $(BURST)

# Another seed kills at other moments; without one a new seed is drawn and printed.
.PHONY: archive-kill
archive-kill: java $(VENV)/.interlock ## Kill the archive job while events arrive: the archive must hold exactly what was sent (EVENTS=200000 KILLS=5 SEED=n)
	@ARCHIVE_EVENTS=$(or $(EVENTS),200000) ARCHIVE_KILLS=$(or $(KILLS),5) ARCHIVE_SEED=$(SEED) $(PYTEST) -q \
	  tests/integration/spark/pipeline/test_archive_killed.py -k although -m ""

# A test that takes longer than faulthandler_timeout in pyproject.toml would be ended as one that hangs.
SINK_AWAY_SECONDS = $(or $(SECONDS),600)
.PHONY: sink-away
sink-away: java $(VENV)/.interlock ## A sink that is away in three ways while deliverers are killed (SECONDS=600; 3600 is an hour)
	@SINK_AWAY_SECONDS=$(SINK_AWAY_SECONDS) $(PYTEST) -m "" -o faulthandler_timeout=$$((2 * $(SINK_AWAY_SECONDS) + 1200)) \
	  tests/integration/engine/test_sink_away.py

# 15 s of it run in `make test`.
SOAK_SECONDS = $(or $(SECONDS),600)
.PHONY: soak
soak: java $(VENV)/.interlock ## 100 events a second over HTTP from four senders to a sink: all are received, at most 0.1% twice (SECONDS=600)
	@SOAK_SECONDS=$(SOAK_SECONDS) $(PYTEST) -m "" -o faulthandler_timeout=$$(($(SOAK_SECONDS) + 900)) \
	  tests/integration/plugin/commands/test_soak.py
