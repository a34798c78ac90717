# Measurements. Included by the Makefile.

BENCH_OUTPUT = $(if $(OUTPUT),--output $(OUTPUT))
# Results are kept in .build/bench/results.jsonl. `make bench-list` lists the sizes that each benchmark takes.
.PHONY: bench bench-engine bench-spark bench-conditions bench-list bench-guard bench-docs
bench: java $(VENV)/.interlock ## Measure the speed of everything against a baseline of the same run, half an hour (ONLY=engine,hooks: benchmarks or groups; OUTPUT=json)
	@$(PY) -m bench $(subst $(comma), ,$(ONLY)) $(BENCH_OUTPUT)

bench-engine: ## `make bench ONLY=engine,waits,takeover`
bench-spark: ## `make bench ONLY=spark`
bench-conditions: ## `make bench ONLY=conditions`
bench-engine bench-spark bench-conditions: java $(VENV)/.interlock
	@$(PY) -m bench $(or $(subst $(comma), ,$(ONLY)),$(patsubst bench-%,%,$(subst bench-engine,engine waits takeover,$@))) $(BENCH_OUTPUT)

.PHONY: bench-full
bench-full: java $(VENV)/.interlock ## Events a second for all combinations of the factors: hours (EVENTS=120000)
	@$(PY) -m bench combinations $(BENCH_OUTPUT)

bench-docs: $(VENV)/.interlock ## docs/understand/benchmarks.md and its pictures, from what `make bench` has kept
	@$(PY) -m bench.render

.PHONY: bench-profile
bench-profile: java $(VENV)/.interlock ## Where the engine's thread spends its time on a backlog (PROFILE="--parts 1")
	@$(PY) -m bench.profile $(PROFILE)

bench-list: $(VENV)/.interlock ## The benchmarks of `make bench`, with their groups and sizes
	@$(PY) -m bench --list

bench-guard: $(VENV)/.interlock ## Count the instructions of the hot path, and save the counts for the test that guards them
	@$(PY) -m bench.guard --write

# Each run of the job has 512 MB for driver and executor together.
.PHONY: backtest-scale
backtest-scale: java $(VENV)/.interlock ## Compare a backtest in 512 MB with a loop of `step`: firings and speed (EVENTS=1000000 KEYS=100000 CORES=1,2 CONDITION=...)
	@EVENTS=$(or $(EVENTS),1000000) $(PY) -m bench backtest $(BENCH_OUTPUT)
