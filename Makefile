SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_LINT_VERSION := v2.15.0
golangci_lint := .tools/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)
# A cache of its own: one shared between clones hides findings that a fresh
# machine reports.
export GOLANGCI_LINT_CACHE := $(CURDIR)/.tools/golangci-lint-cache

# It shows the results of tests.
GOTESTSUM_VERSION := v1.13.0
export GOTESTSUM := $(CURDIR)/.tools/bin/gotestsum-$(GOTESTSUM_VERSION)
# Runs a part of the tests, and sums them up.
run := $(CURDIR)/internal/testing/run

# They build the packages.
GORELEASER_VERSION := v2.15.0
CYCLONEDX_VERSION := v1.10.0
goreleaser := .tools/bin/goreleaser-$(GORELEASER_VERSION)
cyclonedx := .tools/bin/cyclonedx-gomod

# They check deploy/helm and deploy/kubernetes.
HELM_VERSION := v3.22.0
KUBECONFORM_VERSION := v0.8.0
helm := .tools/bin/helm-$(HELM_VERSION)
kubeconform := .tools/bin/kubeconform-$(KUBECONFORM_VERSION)

# Without the folder in what is compiled, all clones share the build cache.
export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

# Packages that carry the promises, and the share of their statements that
# tests must run. What is below them counts too.
COVER_BAR := 90
COVERED := internal/job retrypolicy store

FUZZTIME ?= 30s
# Of `make bench`: how much is measured (default or long), and which scenarios.
BENCH ?= default
ONLY ?=
# Which Go benchmarks `make bench-go` runs, and `make bench-compare` against REV.
GOBENCH ?= .
REV ?= HEAD~1
# How many worlds `make simulate` runs on diskstore.
SIM_SEEDS ?= 5000
# The p99 of received − due that `make lateness` accepts.
LATENESS_BAR ?= 50ms

in_process = $$(go list ./... | grep -v /e2e)
# The whole program: packages built without the detector instantiate the same generics (sync.Map)
# as ours, and the linker keeps one of them. Then races are reported where there are none.
# The detector needs cgo, and with cgo Pebble takes zstd in C, which compiles for 40 s.
race := -race -tags pebblegozstd

# The pure Go build: all binaries that tests start share it, so it compiles once.
plain := CGO_ENABLED=0

# npm writes this file last, so it tells how old the installation is.
npm_installed := web/node_modules/.package-lock.json

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## watch jobs come due, fail, retry and arrive, in under a minute
	$(plain) go run . demo

.PHONY: build
build: ## bin/duehook, static
	$(plain) go build -ldflags '$(LDFLAGS)' -o bin/duehook .

.PHONY: dist
dist: $(goreleaser) $(cyclonedx) ## packages for six platforms, deb, rpm, SBOM and checksums in build/dist; publishes nothing
	GORELEASER=$(CURDIR)/$(goreleaser) deploy/dist

$(goreleaser):
	GOBIN=$(CURDIR)/.tools/bin $(plain) go install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	mv .tools/bin/goreleaser $@

$(cyclonedx):
	GOBIN=$(CURDIR)/.tools/bin $(plain) go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)

# First both builds of the product, while packages are installed: two go commands that compile the same at a
# time share nothing. Then the real processes: they wait more than they work, and their faults and deadlines
# take a machine that answers. What runs beside them is nice and has few servers. Always two parts at a time: a
# third one saturates two cores for minutes, and then tests miss their deadlines. All parts run to their end, so that one run shows everything that is broken.
.PHONY: test
test: $(GOTESTSUM) ## all tests, models and the dashboard; installs what they need if it is missing
	@rm -rf build/tests
	@status=0; $(MAKE) --no-print-directory --keep-going --jobs 2 test-build $(npm_installed) || status=1; \
	$(MAKE) --no-print-directory --keep-going --jobs 2 \
		test-e2e test-races test-model test-modules test-web test-stores test-rest test-concurrent test-large || status=1; \
	internal/testing/coverage build/coverage.out $(COVER_BAR) $(COVERED) || status=1; \
	$(run) summary ./... || status=1; \
	exit $$status

covered := $(foreach room,$(COVERED),./$(room)/...)

# What soaks, measures or needs a quiet machine has a name of its own, for `make soak`.
not_soak := -skip '^TestSoak'

# `make lint` vets with all analyzers. No debugger reads what the tests are linked to; without its tables
# the linker takes half the time, for each of a hundred binaries.
quick := -vet=off -ldflags=-w

# The collector and the linker take a tenth less CPU time for more memory.
lazy := GOGC=400

# A test runs with the race detector, or without it to count statements. The detector takes five to ten
# times the CPU time, since Pebble also checks its invariants in such a build, and each process waits a second
# at its exit. So it watches the packages whose own goroutines meet on data, except large tests of one goroutine:
# TestPlain…. It need not watch parsers, fronts and commands. Of the stores it watches the tests that call from
# several goroutines or lose their server: TestRace….
sequential := |docs.*|duehooktest|httpapi.*|internal/app/(explain|groups)|internal/(cli|importer|job.*|schedule)|internal/kit/(busiest|feed|follow|jsonout|metered|nearest|packed|strictjson)|internal/node/(config|dashboard|demo.*|tracing)|internal/testing/(everyfield|fronts|hostile|must|testenv)|retrypolicy|store.*

# Without commands, which are linked where they are needed, and packages that have tests only.
packages = $$(go list -f '{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}' ./...)

.PHONY: test-build
test-build: deps test-build-plain
	@$(lazy) $(run) command build-race go build $(race) $(packages)

.PHONY: test-build-plain
test-build-plain: $(GOTESTSUM)
	@$(plain) $(lazy) $(run) command build go build $(packages)

# The longest packages begin first, so that none of them is left alone at the end.
.PHONY: test-races
test-races: $(GOTESTSUM)
	@SIM_SEEDS=3 $(lazy) nice $(run) tests races $(race) $(quick) -skip '^TestSoak|^TestPlain' -timeout 20m ./dispatcher ./internal/node $$(go list ./... | grep -vxE "$$(go list -m)/?($(sequential)|e2e.*)")

.PHONY: test-concurrent
test-concurrent: $(GOTESTSUM)
	@$(lazy) nice $(run) tests concurrent $(race) $(quick) -run '^TestRace' -timeout 20m ./store/redisstore ./store/diskstore

# What has a bar of coverage is covered by its own tests: with others, the whole product would be compiled once
# more. Three packages at a time, since they wait for servers.
.PHONY: test-stores
test-stores: $(GOTESTSUM)
	@$(plain) $(lazy) nice $(run) tests stores $(quick) -skip '^TestSoak|^TestRace' -timeout 20m -p 3 -covermode set -coverpkg $$(go list $(covered) | paste -sd,) -coverprofile build/coverage.out $$(go list $(covered))

# With most simulated worlds, where one goroutine runs at a time.
.PHONY: test-rest
test-rest: $(GOTESTSUM)
	@$(plain) $(lazy) nice $(run) tests rest $(quick) -skip '^TestSoak|^TestRace' -timeout 20m ./internal/testing/simulation $$(go list ./... | grep -xE "$$(go list -m)/?($(sequential))" | grep -vxFf <(go list $(covered)))

.PHONY: test-large
test-large: $(GOTESTSUM)
	@$(plain) $(lazy) nice $(run) tests large $(quick) -run '^TestPlain' -timeout 20m ./dispatcher ./internal/services/recent ./internal/app ./internal/app/operations ./internal/app/pulls ./internal/app/schedules ./internal/app/topics

# Several tests at a time, and not nice.
.PHONY: test-e2e
test-e2e: $(GOTESTSUM)
	@$(plain) $(run) tests e2e $(quick) $(not_soak) -timeout 20m -count 1 -parallel 6 ./e2e/...

# The other modules. Of bench, the import from asynq; the rest tests the benchmarks only.
.PHONY: test-modules
test-modules: $(GOTESTSUM)
	@cd bench && $(plain) nice $(run) tests importer $(quick) -timeout 20m ./importer
	@cd client && nice $(run) tests client $(race) $(quick) -timeout 20m ./...
	@cd receiver && nice $(run) tests receiver $(race) $(quick) -timeout 20m ./...

.PHONY: test-model
test-model: $(GOTESTSUM)
	@nice $(run) command model docs/model/check brief

.PHONY: test-web
test-web: $(GOTESTSUM)
	@$(run) command web $(MAKE) --no-print-directory web-test

$(GOTESTSUM):
	GOBIN=$(CURDIR)/.tools/bin $(plain) go install gotest.tools/gotestsum@$(GOTESTSUM_VERSION)
	mv .tools/bin/gotestsum $@

$(npm_installed): web/package-lock.json | deps
	npm --prefix web ci --no-fund --no-audit
	@touch $@

site_installed := docs/node_modules/.package-lock.json

$(site_installed): docs/package-lock.json
	npm --prefix docs ci --no-fund --no-audit
	@touch $@

.PHONY: docs
docs: $(site_installed) ## build/site: docs/ as a site with a search
	npm --prefix docs run build

.PHONY: docs-test
docs-test: deps $(npm_installed) docs ## every page of the site in a real browser, its links and its search
	npm --prefix web run site

.PHONY: web
web: $(npm_installed) ## build the dashboard from web/ into internal/node/dashboard, which is committed
	npm --prefix web run check
	npm --prefix web run build

.PHONY: screenshots
screenshots: deps $(npm_installed) ## docs/images: the dashboard with the data of a shop, light and dark; needs root and pngquant
	$(plain) go build -o build/duehook .
	DUEHOOK=$(CURDIR)/build/duehook web/test/screenshots

.PHONY: picture
picture: ## docs/images/demo.svg: the demo as the moving picture of the README
	go run ./internal/node/demo/picture docs/images/demo.svg

.PHONY: web-test
web-test: deps $(npm_installed) ## the dashboard: built as committed, and tried in a real browser
	npm --prefix web run check
	npm --prefix web run build -- --outDir ../build/dashboard/dist --logLevel warn
	rm -rf build/dashboard/committed && cp -r internal/node/dashboard/dist build/dashboard/committed
	gunzip -r build/dashboard # another zlib packs to other bytes
	diff -r build/dashboard/dist build/dashboard/committed
	$(plain) go build -ldflags=-w -o build/duehook .
	DUEHOOK=$(CURDIR)/build/duehook npm --prefix web test

.PHONY: web-soak
web-soak: deps $(npm_installed) ## how fast pages are painted with 100,000 jobs
	$(plain) go build -o build/duehook .
	DUEHOOK=$(CURDIR)/build/duehook npm --prefix web run soak

# One part after the other: what is measured gets the whole machine. SOAK chooses parts.
SOAK ?= go examples clients bench long-e2e simulation torture model web docs dist deploy lateness

.PHONY: soak
soak: deps $(npm_installed) $(GOTESTSUM) ## what measures, soaks or needs a quiet machine: about an hour; SOAK chooses parts
	@rm -rf build/tests
	@status=0; $(MAKE) --no-print-directory --keep-going $(SOAK:%=soak-%) || status=1; \
	$(run) summary || status=1; \
	exit $$status

.PHONY: soak-go
soak-go: $(GOTESTSUM)
	@$(plain) $(run) tests soak -run '^TestSoak' -timeout 60m -count 1 -p 1 $$(go list ./... | grep -v /torture)

# In all languages of the documents; `make test` plays those that it finds.
.PHONY: soak-examples
soak-examples: $(GOTESTSUM) $(npm_installed)
	@internal/testing/deps runtimes
	@$(plain) $(run) tests examples -timeout 20m -count 1 ./docs/examples/...
	@$(plain) $(run) tests receivers -timeout 20m -count 1 -run '^TestReceivers$$' ./internal/services/signing -receivers java,php,python

.PHONY: soak-bench
soak-bench: $(GOTESTSUM)
	@internal/testing/deps bench
	@cd bench && $(plain) $(run) tests bench -timeout 60m -count 1 ./...

.PHONY: soak-long-e2e
soak-long-e2e: $(GOTESTSUM)
	@E2E_LONG=1 $(run) tests long-e2e $(race) $(not_soak) -timeout 60m -count 1 ./e2e

.PHONY: soak-simulation
soak-simulation: $(GOTESTSUM)
	@$(run) command simulation $(MAKE) --no-print-directory simulate

.PHONY: soak-torture
soak-torture: $(GOTESTSUM)
	@$(run) command torture $(MAKE) --no-print-directory torture RUNS=3 BUDGET=20m

.PHONY: soak-model
soak-model: $(GOTESTSUM)
	@$(run) command model docs/model/check deep

.PHONY: soak-fuzz
soak-fuzz: $(GOTESTSUM)
	@$(run) command fuzz internal/testing/fuzz 10s

.PHONY: soak-web
soak-web: $(GOTESTSUM)
	@$(run) command web $(MAKE) --no-print-directory web-soak

.PHONY: soak-clients
soak-clients: $(GOTESTSUM)
	@$(run) command clients $(MAKE) --no-print-directory clients-test

# 50,000 lines, so they are not committed. That TypeScript's compile and work is part of web-test.
.PHONY: clients-test
clients-test: ## a Go client generated from the OpenAPI document, against a node
	$(plain) go build -o build/duehook .
	mkdir -p e2e/generated/api
	go -C e2e/generated tool oapi-codegen -config generate.yaml ../../httpapi/openapi.yaml
	DUEHOOK=$(CURDIR)/build/duehook go test -C e2e/generated -count 1 ./...

.PHONY: soak-docs
soak-docs: $(GOTESTSUM)
	@$(run) command docs $(MAKE) --no-print-directory docs-test

.PHONY: soak-dist
soak-dist: $(GOTESTSUM) $(goreleaser) $(cyclonedx)
	@GORELEASER=$(CURDIR)/$(goreleaser) $(run) command dist deploy/dist twice
	@$(run) command dist-test deploy/dist-test

.PHONY: soak-deploy
soak-deploy: $(GOTESTSUM) $(helm) $(kubeconform)
	@HELM=$(CURDIR)/$(helm) KUBECONFORM=$(CURDIR)/$(kubeconform) $(run) command deploy deploy/test

$(helm):
	GOBIN=$(CURDIR)/.tools/bin $(plain) go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	mv .tools/bin/helm $@

$(kubeconform):
	GOBIN=$(CURDIR)/.tools/bin $(plain) go install github.com/yannh/kubeconform/cmd/kubeconform@$(KUBECONFORM_VERSION)
	mv .tools/bin/kubeconform $@

.PHONY: soak-lateness
soak-lateness: $(GOTESTSUM)
	@$(run) command lateness $(MAKE) --no-print-directory lateness

.PHONY: model
model: deps ## the model of a job's life, its properties and its mutants; DEEP=1 for more faults, in minutes
	docs/model/check $(if $(DEEP),deep)

.PHONY: simulate
simulate: ## simulations in virtual time, with faults; SIM_SEEDS of them, or SIM_SEED alone
	go test -count 1 -timeout 60m -v ./internal/testing/simulation -seeds $(SIM_SEEDS) | grep -Ev '^(=== |    --- PASS)'

.PHONY: e2e
e2e: deps ## the tests that run real processes; E2E_LONG=1 for the long ones
	go test $(race) -timeout 30m -count 1 -v ./e2e/...

# Of `make torture`: how often each fault, which ones (a regular expression),
# and the first seed. BUDGET=30m begins no run after that time, and
# TABLE=docs/reliability.md writes the table there.
RUNS ?= 40
FAULT ?= .*
SEED ?= 1

.PHONY: torture
torture: deps ## seeded faults on real nodes, each with an audit; RUNS, FAULT and SEED choose
	cd e2e/torture && go test -count 1 -timeout 4h -args -runs $(RUNS) -fault '$(FAULT)' -seed $(SEED) \
		$(if $(BUDGET),-budget $(BUDGET)) $(if $(TABLE),-table ../../$(TABLE))

.PHONY: deps
deps:
	internal/testing/deps

.PHONY: cover
cover: ## the coverage of the last `make test`, line by line, as build/coverage.html
	go tool cover -html build/coverage.out -o build/coverage.html
	internal/testing/coverage build/coverage.out $(COVER_BAR) $(COVERED)

.PHONY: lint
lint: $(golangci_lint) ## linters, format and module file
	$(plain) $(golangci_lint) run ./...
	go mod tidy -diff
	cd bench && $(plain) ../$(golangci_lint) run ./... && go mod tidy -diff
	cd client && $(plain) ../$(golangci_lint) run ./... && go mod tidy -diff
	cd receiver && $(plain) ../$(golangci_lint) run ./... && go mod tidy -diff

.PHONY: fmt
fmt: $(golangci_lint) ## format all Go files
	$(golangci_lint) fmt ./...
	cd bench && ../$(golangci_lint) fmt ./...
	cd client && ../$(golangci_lint) fmt ./...
	cd receiver && ../$(golangci_lint) fmt ./...

$(golangci_lint):
	GOBIN=$(CURDIR)/.tools/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv .tools/bin/golangci-lint $@

.PHONY: proto
proto: ## the Go code of the gRPC messages, which is committed
	cd httpapi/rpc/proto && go run . ../duehookv1

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME
	internal/testing/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## duehook beside other queues and the limit, into docs/benchmarks.md: 10 minutes; BENCH=long for more
	internal/testing/deps bench
	cd bench && go run . -size $(BENCH) -docs ../docs $(if $(ONLY),-only $(ONLY)) $(if $(filter default,$(BENCH)),-budget 9m)

.PHONY: bench-go
bench-go: deps ## Go benchmarks; GOBENCH selects
	go test -run '^$$' -bench '$(GOBENCH)' -benchmem $(in_process)

.PHONY: bench-compare
bench-compare: deps ## Go benchmarks of the hot pieces at REV against now, with benchstat
	bench/compare '$(REV)' $(if $(filter-out .,$(GOBENCH)),'$(GOBENCH)')

.PHONY: lateness
lateness: deps ## received − due at 200 jobs/s on both backends; fails above LATENESS_BAR
	LATENESS_BAR=$(LATENESS_BAR) go test -run '^$$' -bench 'Lateness$$' -benchtime 1x -timeout 10m ./e2e

.PHONY: neighbours
neighbours: deps ## lateness alone and beside 100,000 jobs for a dead endpoint, as a ratio
	go test -run '^$$' -bench LatenessBesideDead -benchtime 1x -timeout 30m ./e2e

.PHONY: zoo
zoo: deps ## what hostile servers cost: memory and time of a delivery, memory of a node, lateness alone and beside
	go test -run Zoo -count 1 -v ./dispatcher ./e2e
	go test -run '^$$' -bench LatenessBesideZoo -benchtime 1x -timeout 30m ./e2e

.PHONY: docs-check
docs-check: ## links, flags, settings, metrics and examples in the documents
	go test -count 1 ./docs

.PHONY: clean
clean: ## forget what was built
	rm -rf bin build .tools
