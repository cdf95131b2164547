# wirespan: everything a newcomer types. `make` alone lists the targets.
#
# Needs root where it installs packages or loads BPF programs. Node comes from the machine if it is 20 or newer, else
# `make deps` puts one from the npm registry into .tools/node (Debian 12's own is 18).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.tools/node/bin:$(HOME)/.cargo/bin:/usr/local/go/bin:$(PATH)

.PHONY: help demo test ui build deps bench fmt lint

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: ## build, run the demo shop, trace it, open its UI on 127.0.0.1 (DEMO_SECONDS=20 ends by itself)
	@scripts/deps demo
	@scripts/build-ui
	cargo build --release --bin wirespan
	@exec "$${CARGO_TARGET_DIR:-target}/release/wirespan" demo

test: ## everything: lints, unit, property, end-to-end and browser tests
	@scripts/deps test
	@exec scripts/test

build: ## target/release/wirespan, with the UI inside
	@scripts/deps build
	@scripts/build-ui
	cargo build --release --bin wirespan

ui: ## only the UI, into ui/dist
	@scripts/deps build
	@scripts/build-ui

deps: ## install what is missing for all of the above
	@scripts/deps test

bench: ## the benchmark table
	@scripts/deps bench
	@scripts/build-ui
	cargo build --release --bin wirespan
	@exec bench/run

fmt: ## format Rust, C and the UI
	@scripts/deps lint
	@scripts/lint --fix

lint: ## every check that runs nothing: formats, linters, licences, texts (part of `make test`)
	@scripts/deps lint
	@scripts/build-ui --no-build
	@scripts/lint
