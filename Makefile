# The commands of the README and of CONTRIBUTING.md, and what they are made of.
.PHONY: quick test test-all lint build lab bench release setup setup-all

quick: export GOGC = 400# what links 56 programs lives for half a second: collecting its garbage is a tenth of the work
quick: ## the Go tests, short: no root, no programs but Go, any system
	go test -short -p 4 -ldflags="-s -w -linkmode=internal" ./...

test: ## what a change must pass, in some 13 minutes; ONLY=content,lab for parts
	scripts/test

test-all: ## everything, whole: goes on where it was killed; ONLY=release,lab for parts
	scripts/test all

lint:
	scripts/lint

build:
	go build -o bin/ ./cmd/...

release: ## what a release consists of, in dist: make release VERSION=0.1.0 SIGN=minisign:KEYFILE
	cd scripts/release && go run . -o ../../dist -version '$(VERSION)' -sign '$(SIGN)' -only '$(ONLY)'

lab: ## the kernel lab alone
	scripts/lab test

bench: ## the benchmarks whose output lies in results/
	scripts/bench

setup: ## install the Debian packages that 'make test' uses where they are
	scripts/setup

setup-all: ## and those that 'make test-all' needs
	scripts/setup all
