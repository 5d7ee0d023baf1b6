# `make test` sets up what it needs and runs everything; the other targets are its parts. Targets run one after
# the other: cargo uses all cores by itself.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

export CARGO_TARGET_DIR ?= $(CURDIR)/target
TOOLS := $(CARGO_TARGET_DIR)/tools
export PATH := $(TOOLS)/bin:$(PATH)
export RUSTLE_BIN ?= $(CARGO_TARGET_DIR)/release/rustle
export RUSTLE_MPI ?= $(CARGO_TARGET_DIR)/mpi
STAGE := tests/setup/stage.sh
# The tests' one set of features, so that nothing is built twice. By default none of them is on; `lint` compiles that.
FEATURES := rustle/etcd,rustle/s3,tests/etcd,bench/etcd,ledger/etcd,ledger/failpoints,checkpoint-store/failpoints
WORKSPACE := --release --workspace --locked --features $(FEATURES)
# By itself: of the workspace it would build all that depends on it again.
MPI := --release --locked --package rustle-mpi --features mpi
PYTHON := .venv/bin/python

.PHONY: help setup fmt lint deny build test test-rust test-deploy screenshots test-etcd test-mpi test-python test-package test-neon test-avx512 test-long test-grid simulate flood audit
.PHONY: trainings demo bench bench-mpi bench-python clean
.PHONY: mpi-program test-slurm test-frameworks test-kills docs test-docs
.PHONY: artefacts check-artefacts publish-check lint-workflows alerts-staged first-hour
.PHONY: settings chaos ends failover slow-link mixed-builds fuzz asan miri mutants

help: ## this list
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/p' Makefile | column -t -s $$'\t'

setup: ## system packages, dependencies, cargo-nextest, cargo-deny, the Python environment: what is missing
	@$(STAGE) system tests/setup/system.sh
	@$(STAGE) fetch cargo fetch --locked
	@$(STAGE) tools tests/setup/tools.sh $(TOOLS)
	@$(STAGE) python tests/setup/python.sh

fmt: ## formatting, checked
	@$(STAGE) fmt cargo fmt --all --check

lint: ## words, clippy over everything without features and with all of them, rustdoc; warnings denied
	@$(STAGE) etcd-setup tests/setup/etcd.sh
	@$(STAGE) mpi-setup tests/setup/mpi.sh $(RUSTLE_MPI)
	@$(STAGE) words tests/lint/words.sh
	@$(STAGE) mutants-fit tests/mutants/run.sh --check
	@$(STAGE) clippy cargo clippy --release --workspace --all-targets --locked -- -D warnings
	@$(STAGE) clippy-features cargo clippy --release --workspace --all-targets --locked --features $(FEATURES),rustle-mpi/mpi -- -D warnings
	@RUSTDOCFLAGS='-D warnings' $(STAGE) doc cargo doc --release --workspace --no-deps --locked

deny: ## bans, licences and sources of all dependencies; needs no network
	@$(STAGE) deny cargo-deny --offline --workspace --log-level warn check bans licenses sources

# With its tests at once: their dependencies turn on features of what the rest depends on, which would then be built twice.
build: ## release build of everything, tests included
	@$(STAGE) etcd-setup tests/setup/etcd.sh
	@$(STAGE) build cargo build $(WORKSPACE) --lib --bins --tests --examples

test: ## everything that must pass before a commit
	@rm -f $(CARGO_TARGET_DIR)/stages
	@$(MAKE) --no-print-directory setup fmt deny lint build test-rust test-deploy test-etcd test-mpi test-slurm test-python test-package test-docs test-neon
	@echo; echo "all passed; seconds a stage:"; column -t $(CARGO_TARGET_DIR)/stages

test-rust: build ## Rust tests in release, the noise kernel's frozen bits in debug too, doc tests
	@$(STAGE) nextest cargo nextest run $(WORKSPACE) -E 'not (binary(deploy) | binary(mpi) | binary(slurm) | binary(etcd) | binary(on_etcd))'
	@$(STAGE) golden-debug cargo nextest run --package noise-kernel --locked -E 'test(golden) | binary(golden)'
	@$(STAGE) doctest cargo test $(WORKSPACE) --doc --quiet

test-python: build ## what an independent implementation says of the noise, the losses and the accounting
	@$(STAGE) pytest $(PYTHON) -m pytest tests/python

test-package: build ## the Python package: its wheel, built and installed into a fresh environment, passes its tests
	@$(STAGE) package tests/setup/package.sh $(CARGO_TARGET_DIR)

docs: build ## the documentation as a site, in target/docs/site
	@tests/setup/docs.sh $(CARGO_TARGET_DIR)/docs build

test-docs: build ## the same, opened in a real browser; every command of the tutorial and of the pages with plots
	@$(STAGE) docs-setup tests/setup/deploy.sh
	@$(STAGE) docs tests/setup/docs.sh $(CARGO_TARGET_DIR)/docs test

test-frameworks: build ## test-package with PyTorch, Opacus and JAX: 6 GB of packages; COUNT=50 kills each job so often
	@$(STAGE) frameworks tests/setup/package.sh $(CARGO_TARGET_DIR) frameworks

test-kills: export COUNT ?= 50
test-kills: build ## every Python adapter's training, killed anywhere and gone on with: COUNT runs (50) of each
	@$(STAGE) kills tests/setup/package.sh $(CARGO_TARGET_DIR) frameworks -k killed_anywhere

test-deploy: build ## a real Prometheus and a real browser on a cluster under load; every query, every alert
	@$(STAGE) deploy-setup tests/setup/deploy.sh
	@$(STAGE) deploy cargo nextest run $(WORKSPACE) -E 'binary(deploy)'
	@$(STAGE) alerts python3 tests/alerts/staged.py quiet-hour only-worker-killed coordinator-killed

first-hour: build ## what newcomers and operators do first, as the pages show it: commands and seconds, limits; WHEEL=FILE to install it
	@$(STAGE) deploy-setup tests/setup/deploy.sh
	python3 tests/docs/first_hour.py $(WHEEL)

alerts-staged: build ## 13 failures of real clusters and a quiet hour: which alerts fire, by promtool; STAGES="ledger-old …" for some
	@$(STAGE) etcd-setup tests/setup/etcd.sh
	@$(STAGE) deploy-setup tests/setup/deploy.sh
	python3 tests/alerts/staged.py $(STAGES)

screenshots: build docs ## the status page, the report and the site as a screen and a phone show them, light and dark, in target/screenshots
	@$(STAGE) deploy-setup tests/setup/deploy.sh
	@python3 tests/docs/screenshots.py $(CARGO_TARGET_DIR)/screenshots $(CARGO_TARGET_DIR)/docs/site

mpi-program: build
	@$(STAGE) mpi-setup tests/setup/mpi.sh $(RUSTLE_MPI)
	@$(STAGE) mpi-build tests/setup/mpi_build.sh $(RUSTLE_MPI) $(MPI)

test-mpi: mpi-program ## noise under a real mpirun: by itself, beside training ranks in Rust and Python, and back to gRPC
	@$(STAGE) mpi-python tests/setup/python_package.sh $(RUSTLE_MPI)/package
	@$(STAGE) mpi-unit cargo nextest run $(MPI) --lib
	@$(STAGE) mpi cargo nextest run $(WORKSPACE) -E 'binary(mpi)'

test-slurm: mpi-program ## the batch scripts under a real Slurm: requeued, preempted and killed, by other numbers of ranks
	@$(STAGE) slurm-setup tests/setup/slurm.sh
	@$(STAGE) slurm cargo nextest run $(WORKSPACE) -E 'binary(slurm)' --success-output immediate

test-etcd: build ## the ledger in a real etcd; coordinators that stand by, killed, stopped and cut off
	@$(STAGE) etcd cargo nextest run $(WORKSPACE) -E 'binary(etcd) | binary(on_etcd)' --success-output immediate

test-neon: ## the noise kernel on 64-bit Arm, under qemu
	@$(STAGE) neon tests/setup/neon.sh

test-avx512: ## the noise kernel's AVX-512 on an emulated processor, where this one has none: some 7 minutes
	@$(STAGE) avx512 tests/setup/avx512.sh

test-long: export RUSTLE_LONG := 1
test-long: export NEXTEST_PROFILE := long
test-long: setup build ## the Rust and Python tests at full size: hours, not minutes
	@$(STAGE) nextest-long cargo nextest run $(WORKSPACE) -E 'not (binary(deploy) | binary(mpi) | binary(slurm) | binary(etcd) | binary(on_etcd))'
	@$(STAGE) pytest-long $(PYTHON) -m pytest tests/python

settings: export COUNT ?= 1000
settings: ## COUNT random settings (1000) over all accounts, from number FIRST of SEED, against enumerated outputs: every one with its time
	cargo test --release --locked --package rustle-accounting --test random_settings -- --ignored --nocapture

test-grid: export RUSTLE_LONG := 1
test-grid: ## noise on a grid at length: 10⁷ decisions, 10⁹ draws for each of four deviations, the attack over 10⁹ coordinates
	cargo nextest run --profile long --release --locked -p noise-kernel --no-capture -E 'test(grid) | binary(grid) | binary(precision_attack)'

flood: export COUNT ?= 1000
flood: export NEXTEST_PROFILE := flood
flood: build ## an honest job beside COUNT attackers (1000) of each kind, or of ATTACKS (streams,resets), MINUTES each: figures, misses fail
	cargo nextest run $(WORKSPACE) --no-capture -E 'test(an_honest_job_goes_on)'

simulate: ## the whole service in virtual time, COUNT seeds (10000), or SEED alone with its events
	cargo run --release --locked -p simulation -- $(if $(SEED),--seed $(SEED),--count $(or $(COUNT),10000))

chaos: build ## COUNT rounds (200) of real faults, or of FAULTS alone (kill-worker,end-at; power-cut by name alone), from seed FIRST (0), or of SEED alone
	@$(STAGE) clocks tests/setup/clocks.sh
	$(CARGO_TARGET_DIR)/release/chaos $(if $(FAULTS),--faults $(FAULTS)) $(if $(SEED),--seed $(SEED),--count $(or $(COUNT),200) --first $(or $(FIRST),0))

ends: build ## a process ended at every durable step, COUNT times (20) alone, with one of the other role, and with everyone
	$(CARGO_TARGET_DIR)/release/chaos --every-point $(or $(COUNT),20)

failover: build ## how long a lost worker of four costs at dimension DIMENSION (1e8), KILLS times (20)
	$(CARGO_TARGET_DIR)/release/chaos failover --dimension $(or $(DIMENSION),100000000) --kills $(or $(KILLS),20)

slow-link: build ## what one worker of four behind a slow link costs at dimension DIMENSION (4e5), TURNS times (10)
	$(CARGO_TARGET_DIR)/release/chaos slow-link --dimension $(or $(DIMENSION),400000) --turns $(or $(TURNS),10)

mixed-builds: build ## today's build and older ones of this protocol and of the last in one cluster; builds those first, some ten minutes
	@$(STAGE) older-builds tests/setup/older_builds.sh
	cargo nextest run $(WORKSPACE) --run-ignored only -E 'binary(mixed_builds)'

fuzz: ## every decoder, or TARGETS, MINUTES or COUNT (30) of a processor each, JOBS at once (a core each), overflow checked
	cargo run --profile fuzz --locked -p fuzz -- --minutes $(or $(MINUTES),$(COUNT),30) --jobs $(or $(JOBS),0) $(TARGETS)

asan: ## the noise kernel's tests under AddressSanitizer
	@tests/setup/asan.sh

miri: ## the noise kernel's unsafe code under Miri; half an hour, and a nightly toolchain
	@tests/setup/miri.sh

mutants: ## every bug of tests/mutants, or NAMES, planted in a copy: the test it names must find it
	@tests/mutants/run.sh $(NAMES)

trainings: export OMP_NUM_THREADS := 1
trainings: build ## the trainings in full, over real clusters, two hours on two cores; again continues; tables for docs/trainings.md
	@tests/setup/package_environment.sh $(CARGO_TARGET_DIR) trainings
	@tests/setup/trainings.sh $(CARGO_TARGET_DIR)/package/trainings/bin/python

audit: ## security advisories, from the checkout of the RustSec database named by ADVISORY_DB
	@tests/setup/tools.sh $(TOOLS)
	@tests/setup/audit.sh $(CARGO_TARGET_DIR)

artefacts: ## what a version publishes, in target/dist: programs, Debian packages, wheels, SBOM, checksums; MACHINES="x86_64 aarch64"
	@tests/setup/etcd.sh
	@deploy/release/artefacts.sh $(CARGO_TARGET_DIR) $(CARGO_TARGET_DIR)/dist

check-artefacts: ## each artefact unpacked and run, in seconds
	@deploy/release/check.sh $(CARGO_TARGET_DIR) $(CARGO_TARGET_DIR)/dist

# Those meant for others, with what they need of ours.
PUBLISHED := strategy batches accounting plan proto node shared-memory client
publish-check: ## the crates meant for others, packed and built as a registry would take them; nothing is published
	cargo publish --dry-run --locked --allow-dirty $(PUBLISHED:%=--package rustle-%)

lint-workflows: ## .github/workflows against the forge's schema
	@deploy/release/tools.sh $(CARGO_TARGET_DIR)
	@$(CARGO_TARGET_DIR)/tools/artefacts/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

demo: ## the whole system on real data
	cargo run --release --locked -p rustle -- demo

bench: ## measurements
	cargo run --release --locked -p bench -- kernels

bench-mpi: ## delivery over MPI beside bare sends, and in a shared window beside one copy of memory
	@tests/setup/mpi.sh $(RUSTLE_MPI)
	@tests/setup/mpi_build.sh $(RUSTLE_MPI) $(MPI)
	RUSTLE_MPI_RATES=$(RUSTLE_MPI)/mpi_rates cargo run --release --locked -p bench -- mpi

bench-python: ## a training step's wait for noise, fetch_into beside copies, and other libraries: ARGUMENTS='--record'
	cargo build --release --locked -p rustle
	@tests/setup/package_environment.sh $(CARGO_TARGET_DIR) frameworks
	$(CARGO_TARGET_DIR)/package/frameworks/bin/python bench/python/training_step.py $(ARGUMENTS)

clean: ## all that was built or set up here
	cargo clean
	rm -rf .venv
