# run · test · bench · lint: the four commands; check, soak and fuzz for those who have the time.

CARGO ?= cargo
# The profile of tests also builds the daemon that the end-to-end tests run: one build serves both.
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
DAEMON := $(TARGET)/debug/holdfast
ROUNDS ?=
RUNTIME ?=
QUICK ?=
# A test run takes the seeds from here on. Whoever has run a new range, and mended what it found, raises the number in
# the file: a run on a clean checkout then fails for its change alone. 'make soak' takes many from 0 on.
HOLDFAST_FROM ?= $(shell cat tests/seeds)
# The part of the seeds of each simulation, in percent: a part in each run of the tests, all of them in 'make check'.
HOLDFAST_SHARE ?= 40
# Most tests wait for daemons, disks and clients more than they compute.
THREADS ?= $(shell echo $$(($$(nproc) + 2)))
# What tests had to leave out on this machine.
LEFT_OUT = $(TARGET)/left-out
# The programs that measure.
BENCH := holdfast-tests/bench
PIN ?=
SHARED ?=
WEB := manage/web
WEB_SOURCES := $(shell find $(WEB)/src $(WEB)/public -type f) $(wildcard $(WEB)/*.json $(WEB)/*.ts $(WEB)/*.js $(WEB)/index.html)

.PHONY: run test check bench lint soak fuzz packages console screenshots

run: console
	$(CARGO) run --release --package holdfast -- demo

packages:
	@scripts/packages.sh

# The console is built before the daemon, which carries it.
console: packages
	@$(MAKE) --no-print-directory $(WEB)/dist/assets

# Not 'npm ci': that refuses a lock that was made where packages for other platforms could not be had.
$(WEB)/node_modules/.package-lock.json: $(WEB)/package-lock.json
	cd $(WEB) && npm install --ignore-scripts --no-save
	@# The npm of Debian 12 leaves this link out.
	cd $(WEB)/node_modules/.bin && ln -sf ../node-linux-*/bin/node node

$(WEB)/dist/assets: $(WEB)/node_modules/.package-lock.json $(WEB_SOURCES)
	cd $(WEB) && npm run build

test: console
	$(CARGO) test --workspace --no-run
	@rm -f $(LEFT_OUT)
	@echo "simulations begin with seed $(HOLDFAST_FROM): repeat this run with HOLDFAST_FROM=$(HOLDFAST_FROM) make test"
	@HOLDFAST_BIN=$(DAEMON) HOLDFAST_FROM=$(HOLDFAST_FROM) HOLDFAST_SHARE=$(HOLDFAST_SHARE) HOLDFAST_LEFT_OUT=$(LEFT_OUT) RUST_TEST_THREADS=$(THREADS) CARGO=$(CARGO) \
		scripts/test-parts.sh rust api-fuzz api-clients console fuzz
	@if [ -s $(LEFT_OUT) ]; then echo "left out on this machine:"; sed 's/^/  /' $(LEFT_OUT); else echo "nothing was left out"; fi

check:
	$(MAKE) test HOLDFAST_SHARE=100

screenshots: console
	$(CARGO) build --package holdfast --profile test
	cd $(WEB) && HOLDFAST_BIN=$(DAEMON) npm run screenshots

lint: console
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --features $(BENCH) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps
	cd $(WEB) && npm run check

bench: console
	$(CARGO) build --release --package holdfast --package holdfast-tests --bins --features $(BENCH)
	@HOLDFAST_BIN=$(TARGET)/release/holdfast ROUNDS=$(ROUNDS) RUNTIME=$(RUNTIME) QUICK=$(QUICK) PIN=$(PIN) SHARED=$(SHARED) $(TARGET)/release/bench
	@HOLDFAST_BIN=$(TARGET)/release/holdfast ROUNDS=$(ROUNDS) RUNTIME=$(RUNTIME) QUICK=$(QUICK) PIN=$(PIN) SHARED=$(SHARED) \
		SUBJECTS=simple,simple-plain,two-way,two-way-plain,parity2,parity2-plain $(TARGET)/release/bench
	@HOLDFAST_BIN=$(TARGET)/release/holdfast ROUNDS=$(ROUNDS) RUNTIME=$(RUNTIME) QUICK=$(QUICK) $(TARGET)/release/iscsi
	@ROUNDS=$(ROUNDS) QUICK=$(QUICK) $(TARGET)/release/parity
	@ROUNDS=$(ROUNDS) QUICK=$(QUICK) $(TARGET)/release/stripes
	@ROUNDS=$(ROUNDS) QUICK=$(QUICK) $(TARGET)/release/summed
	@HOLDFAST_BIN=$(TARGET)/release/holdfast ROUNDS=$(ROUNDS) $(TARGET)/release/jobs
	@HOLDFAST_BIN=$(TARGET)/release/holdfast ROUNDS=$(ROUNDS) $(TARGET)/release/qos
	@ROUNDS=$(ROUNDS) QUICK=$(QUICK) $(TARGET)/release/files
	@QUICK=$(QUICK) $(TARGET)/release/orphans
	@ROUNDS=$(ROUNDS) QUICK=$(QUICK) $(TARGET)/release/mounted
	@ROUNDS=$(ROUNDS) QUICK=$(QUICK) $(TARGET)/release/cached
	@ROUNDS=$(ROUNDS) QUICK=$(QUICK) $(TARGET)/release/snapshots
	@ROUNDS=$(ROUNDS) QUICK=$(QUICK) $(TARGET)/release/clones
	@HOLDFAST_BIN=$(TARGET)/release/holdfast ROUNDS=$(ROUNDS) QUICK=$(QUICK) $(TARGET)/release/offload
	@$(TARGET)/release/simulated
	@$(TARGET)/release/rebuild
	@ROUNDS=$(ROUNDS) QUICK=$(QUICK) $(TARGET)/release/opens

soak: console
	$(CARGO) test --workspace --no-run
	HOLDFAST_SEEDS=20000 $(CARGO) test --package holdfast-pool --package holdfast-space
	HOLDFAST_SEEDS=7000 $(CARGO) test --package holdfast-volume
	HOLDFAST_SEEDS=100000 $(CARGO) test --package holdfast-opens
	HOLDFAST_BIN=$(DAEMON) HOLDFAST_KILLS=200 $(CARGO) test --package holdfast-tests --test end_to_end -- --nocapture crash torture snapshots::snapshots_are
	HOLDFAST_BIN=$(DAEMON) HOLDFAST_KILLS=200 $(CARGO) test --package holdfast-tests --test iscsi -- --nocapture kill
	HOLDFAST_BIN=$(DAEMON) HOLDFAST_SOAK=1 $(CARGO) test --package holdfast-tests --test suites -- --nocapture --test-threads 1

fuzz: packages
	scripts/fuzz-short.sh $(or $(SECONDS),31536000)
