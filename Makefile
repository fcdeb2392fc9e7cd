# run · test · bench · lint: the four commands; soak and fuzz for those who have the time.

CARGO ?= cargo
# The profile of tests also builds the daemon that the end-to-end tests run: one build serves both.
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
DAEMON := $(TARGET)/debug/holdfast
ROUNDS ?=
RUNTIME ?=
QUICK ?=
PIN ?=

.PHONY: run test bench lint soak fuzz packages

run: packages
	$(CARGO) run --release --package holdfast -- demo

packages:
	@scripts/packages.sh

test: packages
	$(CARGO) build --workspace --all-targets --profile test
	HOLDFAST_BIN=$(DAEMON) $(CARGO) test --workspace
	@if [ -x scripts/fuzz-short.sh ]; then scripts/fuzz-short.sh 60; fi

lint: packages
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

bench: packages
	$(CARGO) build --release --package holdfast --package holdfast-tests --bins
	@HOLDFAST_BIN=$(TARGET)/release/holdfast ROUNDS=$(ROUNDS) RUNTIME=$(RUNTIME) QUICK=$(QUICK) PIN=$(PIN) $(TARGET)/release/bench
	@HOLDFAST_BIN=$(TARGET)/release/holdfast ROUNDS=$(ROUNDS) RUNTIME=$(RUNTIME) QUICK=$(QUICK) PIN=$(PIN) \
		SUBJECTS=simple,simple-plain,two-way,two-way-plain,parity2,parity2-plain $(TARGET)/release/bench
	@ROUNDS=$(ROUNDS) QUICK=$(QUICK) $(TARGET)/release/parity
	@ROUNDS=$(ROUNDS) QUICK=$(QUICK) $(TARGET)/release/stripes
	@HOLDFAST_BIN=$(TARGET)/release/holdfast ROUNDS=$(ROUNDS) $(TARGET)/release/jobs
	@$(TARGET)/release/simulated
	@$(TARGET)/release/rebuild

soak: packages
	$(CARGO) build --workspace --all-targets --profile test
	HOLDFAST_SEEDS=20000 $(CARGO) test --package holdfast-pool --package holdfast-space
	HOLDFAST_BIN=$(DAEMON) HOLDFAST_KILLS=200 $(CARGO) test --package holdfast-tests --test end_to_end -- --nocapture crash

fuzz: packages
	scripts/fuzz-short.sh $(or $(SECONDS),31536000)
