# The page and the tab in Airflow's UI: TypeScript of ui/, built into one file that is committed, so that neither
# an installation nor the tests need Node. It takes Node 20.19 or later, and npm.

UI_BUILT := plugin/page/www/interlock.js
NPM := cd ui && npm

.PHONY: node
node:
	@command -v npm >/dev/null || { echo "make: no npm found; building the page needs Node 20.19 or later (Debian: apt install npm)" >&2; exit 1; }

ui/node_modules/.package-lock.json: ui/package.json ui/package-lock.json | node
	@echo "== packages of ui/package-lock.json"
	@$(NPM) ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: ui
ui: ui/node_modules/.package-lock.json ## Check, test and build the page of Airflow's UI into plugin/page/www (needs Node)
	@$(NPM) run --silent check
	@$(NPM) run --silent test
	@$(NPM) run --silent build
	@ls -l $(UI_BUILT)

.PHONY: check-ui
check-ui: ui ## As `make ui`, and fail if the built file is not the committed one
	@git diff --exit-code --stat -- $(UI_BUILT) || { echo "make: $(UI_BUILT) is not what ui/ builds: commit it" >&2; exit 1; }

.PHONY: harness
harness: ui/node_modules/.package-lock.json ## The page outside Airflow, with made-up answers, on http://127.0.0.1:5178 until Ctrl-C
	@$(NPM) run --silent harness

# Without Airflow and Kafka. CHROMIUM is the browser, /usr/bin/chromium if it is not set.
.PHONY: test-ui
test-ui: ui ## Each view of the page in Chromium, in light and dark, wide and narrow, and by keyboard; pictures in ui/.shots
	@$(NPM) run --silent browser
