# Build, test and check lanceknn. `make help` lists the targets.
#
#   LANCEKNN_CACHE       where large artefacts go (default ~/.cache/lanceknn)
#   LANCEKNN_TARGET_CPU  the x86-64 level to build for (default x86-64-v3)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# cbuild itself needs no C compiler: that it names a missing one is the point.
CBUILD := CGO_ENABLED=0 go run ./cbuild
TRIPLE := $(if $(filter aarch64 arm64,$(shell uname -m)),aarch64,x86_64)-unknown-linux-gnu
# One build of the dependencies serves build, test and clippy alike.
CARGO_FLAGS := --release --locked --target $(TRIPLE)

# Tests start many processes and native threads; a package that hangs should say where well before CI gives up.
# Not cached: go does not see that the native library has changed.
GO_TEST_FLAGS ?= -count=1 -timeout 40m
FUZZTIME ?= 30s
SOAK_CASES ?= 3000

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

.PHONY: native
native: ## Build the native library into cbuild/dist
	@$(CBUILD) build

.PHONY: demo
demo: native ## Build, then search a generated dataset through every strategy and check the answers
	@python=$$($(CBUILD) venv) || python=; \
	LANCEKNN_PYTHON=$$python go run ./cmd/lanceknn demo

.PHONY: test
test: native ## Run every test
	@$(CBUILD) cargo test $(CARGO_FLAGS)
	@python=$$($(CBUILD) venv); \
	LANCEKNN_PYTHON=$$python go test $(GO_TEST_FLAGS) ./...

.PHONY: test-race
test-race: native ## Run the Go tests under the race detector
	@python=$$($(CBUILD) venv); \
	LANCEKNN_PYTHON=$$python go test -race $(GO_TEST_FLAGS) ./...

.PHONY: lint
lint: ## Run the linters
	@golangci=$$($(CBUILD) tools golangci-lint); "$$golangci" run ./...
	@$(CBUILD) cargo fmt --check
	@$(CBUILD) cargo clippy $(CARGO_FLAGS) --all-targets -- -D warnings
	@deny=$$($(CBUILD) tools cargo-deny); cd lance-ffi && "$$deny" --locked check bans licenses sources

.PHONY: fmt
fmt: ## Format Go and Rust
	@golangci=$$($(CBUILD) tools golangci-lint); "$$golangci" fmt ./...
	@$(CBUILD) cargo fmt

.PHONY: header
header: ## Regenerate lance-ffi/include/lance_ffi.h
	@$(CBUILD) header

.PHONY: header-check
header-check: ## Fail if the committed header is not what the crate generates
	@$(CBUILD) header-check

.PHONY: check
check: ## Everything: lint, header, tests, race; fails if a file changed
	@before=$$(git status --porcelain); \
	$(MAKE) fmt lint header-check test test-race; \
	after=$$(git status --porcelain); \
	if [ "$$before" != "$$after" ] || [ -n "$$after" ]; then \
		echo "make check: the tree is dirty:" >&2; git status --short >&2; exit 1; \
	fi

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME
	@grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -r -n1 dirname | sort -u | while read -r dir; do \
		grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go | sed 's/^func //' | while read -r target; do \
			echo "== $$dir $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$dir"; \
		done; \
	done

.PHONY: soak
soak: native ## Run SOAK_CASES random differential cases against pylance
	@python=$$($(CBUILD) venv); \
	LANCEKNN_PYTHON=$$python LANCEKNN_SOAK_CASES=$(SOAK_CASES) go test -count=1 -timeout 0 ./tests/...

.PHONY: bench
bench: native ## Run the benchmark and write bench/REPORT.md
	@python=$$($(CBUILD) venv); LANCEKNN_PYTHON=$$python go run ./bench -profile full

.PHONY: bench-quick
bench-quick: native ## A short run of the benchmark
	@python=$$($(CBUILD) venv); LANCEKNN_PYTHON=$$python go run ./bench -profile quick

.PHONY: clean
clean: ## Remove what was built in the checkout; the cache stays
	@rm -rf cbuild/dist bin
