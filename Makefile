# Two commands do everything: `make up` starts Twinstack, `make test` tests it. Both install what they need and say so.

SHELL := /bin/bash
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/twinstack
export CARGO_TARGET_DIR ?= $(CACHE)/target
export TWINSTACK_TOOLS ?= $(CACHE)/tools
export TWINSTACK_GIT_COMMIT := $(shell git rev-parse --short HEAD 2>/dev/null)

.PHONY: help up test test-faults test-ipvs conformance fuzz lint bench fmt dist
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: ## build and start everything, print what to try
	@scripts/need up
	@if [ -e "$(CARGO_TARGET_DIR)/release" ]; then cargo build --locked --release --package cli; \
	 else scripts/timed build-from-nothing cargo build --locked --release --package cli; fi
	@"$(CARGO_TARGET_DIR)/release/twinstack" up $(ARGS)

test: ## install what tests need, lint, run all tests
	@if [ -e "$(CARGO_TARGET_DIR)/debug" ]; then scripts/test; else scripts/timed test-from-nothing scripts/test; fi

test-faults: ## AWS behind moto: each fault at each call of each change, and 500 Services; an hour
	@scripts/need test
	@TWINSTACK_FAULTS=all PATH="$$PATH:$(TWINSTACK_TOOLS)" cargo test --locked --package e2e --test aws -- cut_off:: cloud_controller_manager::

test-ipvs: ## IPVS mode of the proxy for real: Debian's kernel in qemu, a few minutes
	@scripts/test-ipvs

conformance: ## Kubernetes' own conformance tests against `up` (E2E_TEST names e2e.test; FOCUS narrows)
	@scripts/conformance

fuzz: ## look for inputs that break a parser, 20 s for each (FUZZ_SECONDS)
	@scripts/fuzz $(TARGETS)

lint: ## format, supply chain, clippy and layer rules
	cargo fmt --all --check
	cargo xtask deny
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo xtask deps

bench: ## figures, and ratios where a peer is named (KUBE_APISERVER, ...)
	@scripts/bench

fmt: ## format the code
	cargo fmt --all

dist: ## the small binary for release
	cargo build --locked --profile dist --package cli
	@ls -l "$(CARGO_TARGET_DIR)/dist/twinstack"
