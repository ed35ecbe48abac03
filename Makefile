# The two commands of the README, and what they are made of.
.PHONY: test quick lint build lab bench setup

test: ## everything that CI runs; installs what it needs
	scripts/test

quick: ## the Go tests that decide by content, with short simulations: no root, no emulator, no clusters, no servers
	go test -short $$(go list ./... | grep -vE '/internal/cli$$|/internal/cli/fabric$$|/internal/fabric/coordinate$$|/verbs/roce$$|/scripts/labtest|/report/render$$')

lint:
	scripts/lint

build:
	go build -o bin/ ./cmd/...

lab: ## the kernel lab alone
	scripts/lab test

bench: ## the benchmarks whose output lies in results/
	scripts/bench

setup: ## install the Debian packages that the tests need
	scripts/setup
