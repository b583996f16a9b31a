SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Without the folder in what is compiled, all clones share the build cache.
export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)
# A cache of its own: one shared between clones hides findings that a fresh machine reports.
export GOLANGCI_LINT_CACHE := $(CURDIR)/.tools/golangci-lint-cache

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
# The pure Go build: with cgo, Pebble takes zstd in C, which compiles for 40 s.
plain := CGO_ENABLED=0

# Which parts of the tests run; see the scripts.
PART ?=
# How much `make bench` measures (default or long), and which scenarios.
BENCH ?= default
ONLY ?=

# npm writes these files last, so they tell how old the installations are.
npm_installed := web/node_modules/.package-lock.json
site_installed := docs/node_modules/.package-lock.json

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## watch jobs come due, fail, retry and arrive, in under a minute
	$(plain) go run . demo

.PHONY: build
build: ## bin/duehook, static
	$(plain) go build -ldflags '$(LDFLAGS)' -o bin/duehook .

.PHONY: test
test: ## all tests, models and the dashboard; installs what they need. PART='stores web' chooses
	internal/testing/test $(PART)

.PHONY: soak
soak: $(npm_installed) ## what measures, soaks or needs a quiet machine: about an hour. PART='torture model' chooses
	internal/testing/soak $(PART)

.PHONY: lint
lint: ## linters, format and module files
	lint=$$(internal/testing/tool golangci-lint); for module in . bench client receiver; do \
		(cd $$module && $(plain) "$$lint" run ./... && go mod tidy -diff); \
	done

.PHONY: fmt
fmt: ## format all Go files
	lint=$$(internal/testing/tool golangci-lint); for module in . bench client receiver; do (cd $$module && "$$lint" fmt ./...); done

.PHONY: web
web: $(npm_installed) ## build the dashboard from web/ into internal/node/dashboard, which is committed
	npm --prefix web run check
	npm --prefix web run build

.PHONY: docs
docs: $(site_installed) ## build/site: docs/ as a site with a search
	npm --prefix docs run build

.PHONY: bench
bench: ## duehook beside other queues and the limit, into docs/benchmarks.md: 10 minutes; BENCH=long for more
	internal/testing/deps
	cd bench && go run . -size $(BENCH) -docs ../docs $(if $(ONLY),-only $(ONLY)) $(if $(filter default,$(BENCH)),-budget 9m)

.PHONY: dist
dist: ## packages for six platforms, deb, rpm, SBOM and checksums in build/dist; publishes nothing
	deploy/dist

.PHONY: clean
clean: ## forget what was built
	rm -rf bin build .tools

$(npm_installed): web/package-lock.json
	internal/testing/deps
	npm --prefix web ci --no-fund --no-audit
	@touch $@

$(site_installed): docs/package-lock.json
	internal/testing/deps
	npm --prefix docs ci --no-fund --no-audit
	@touch $@
