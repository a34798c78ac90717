# The page and the tab in Airflow's UI: TypeScript of ui/, built into one file that is committed, so that neither
# an installation nor the tests need Node. It takes Node 20.19 or later, and npm.

UI_BUILT := plugin/page/www/interlock.js
UI_PACKAGES := ui/node_modules/.package-lock.json
NPM := cd ui && npm
suitable-node = command -v npm >/dev/null && node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null
no-node = make: no Node 20.19 or later with npm found, which building the page needs

.PHONY: node
node:
	@$(suitable-node) || { echo "$(no-node)" >&2; exit 1; }

# npm keeps packages by their hashes in its cache, and does not ask the registry for what is there (ui/.npmrc).
$(UI_PACKAGES): ui/package.json ui/package-lock.json | node
	@echo "== packages of ui/package-lock.json"
	@$(NPM) ci --loglevel=error --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=10000 --fetch-timeout=60000
	@touch $@

.PHONY: checked-ui
checked-ui: $(UI_PACKAGES)
	@$(NPM) run --silent check
	@$(NPM) run --silent test

.PHONY: ui
ui: checked-ui ## Check, test and build the page of Airflow's UI into plugin/page/www (needs Node)
	@$(NPM) run --silent build
	@ls -l $(UI_BUILT)

# Builds beside the committed file, which tests that run meanwhile may read.
.PHONY: check-ui
check-ui: checked-ui ## Check and test it, build it elsewhere, and fail if plugin/page/www has other bytes
	@$(NPM) run --silent build -- --outDir ../.build/page
	@cmp .build/page/$(notdir $(UI_BUILT)) $(UI_BUILT) || { echo "make: $(UI_BUILT) is not what ui/ builds: make ui, and commit it" >&2; exit 1; }

# Without Airflow and Kafka. LOOKS="light-1280 dark-390" takes these alone.
.PHONY: test-ui opened-ui
test-ui: ui ## Each view of the page in Chromium, in light and dark, wide and narrow, and by keyboard; pictures in ui/.shots
	@$(MAKE) opened-ui

opened-ui: $(UI_PACKAGES)
	@LOOKS='$(LOOKS)' CHROMIUM="$${CHROMIUM:-$$(command -v chromium)}" npm --prefix ui run --silent browser

# Of a fixed moment, so that another run on this Chromium and these fonts makes the same bytes.
.PHONY: pictures-ui
pictures-ui: ui ## The pictures of docs/use/page.md and README.md, from ui/fixtures into docs/images/page
	@CHROMIUM="$${CHROMIUM:-$$(command -v chromium)}" npm --prefix ui run --silent pictures
	@ls -l docs/images/page

# What `make test` runs of it. Node and the packages are not what a test is about, so without them it says so and
# fails nothing; a lock file that does not fit, and a package with another hash, are faults of the repository.
.PHONY: try-ui
try-ui:
	@untried() { printf 'make: *** THE PAGE OF ui/ WAS NOT CHECKED, AND NOT COMPARED WITH %s: %s\n' '$(UI_BUILT)' "$$1" >&2; exit 0; }; \
	$(suitable-node) || untried 'no Node 20.19 or later with npm was found.'; \
	mkdir -p .build; \
	$(MAKE) $(UI_PACKAGES) 2> .build/npm.log || { \
	  cat .build/npm.log >&2; \
	  ! grep -Eq 'npm error code (EUSAGE|EINTEGRITY)' .build/npm.log || exit 1; \
	  untried "npm could not fetch its packages from $$(npm config get registry)."; }; \
	$(MAKE) check-ui && $(MAKE) opened-ui LOOKS='light-1280 dark-390'

.PHONY: harness
harness: $(UI_PACKAGES) ## The page outside Airflow, with made-up answers, on http://127.0.0.1:5178 until Ctrl-C
	@$(NPM) run --silent harness
