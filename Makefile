# Targets. `make help` lists them; the scripts are in python/scripts.
.DEFAULT_GOAL := help
.PHONY: help run test test-fast test-stores test-versions soak gate docs build wheel install bench-check gpu-report

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F '\t' '{ printf "make %-13s %s\n", $$1, $$2 }'

run: ## see it work: data set, object server, epochs, training, report (RUN_ARGS="--data s3://bucket/set" for your own)
	@python/scripts/run.sh $(RUN_ARGS)

test: ## everything that must pass: gate, Rust, C, Python
	@python/scripts/test.sh

test-fast: ## the same in minutes, for daily work: no trainers, no further processes of Python, no models, no documentation
	@python/scripts/test.sh fast

soak: ## many epochs through a faulty network (SOAK=1000 seeds, from 0)
	@python/scripts/system.sh && FOREBAY_CHAOS_SEEDS=$${SOAK:-1000} \
	    cargo test --locked -p forebay-tests --test chaos -- --ignored --nocapture soak

test-stores: ## an epoch from Garage (S3) and emulators of Azure, Google Cloud Storage and S3, which it installs (needs npm)
	@python/scripts/stores.sh

test-versions: ## the loader with the least versions of the trainers and frameworks that it supports
	@python/scripts/versions.sh

gate: ## the checks that run no test: format, lints, docs, layering, drift
	@python/scripts/system.sh && cargo gate

docs: ## the documentation site, into target/docs
	@python/scripts/docs.sh

build: ## the extension inside the package, for PYTHONPATH=python/py_src
	@python/scripts/system.sh && python/scripts/extension.sh release

wheel: ## an abi3 wheel for glibc 2.28 and newer, under target/wheels, checked (WHEEL_ARCH=aarch64 for ARM)
	@python/scripts/wheel.sh

install: ## the C library, its headers and its pkg-config file (PREFIX=/usr/local, DESTDIR, LIBDIR, INCLUDEDIR)
	@python/scripts/system.sh && ffi/install.sh

bench-check: ## instructions of the hot paths under valgrind, compared with bench/counts.json (WRITE=1 writes it)
	@python/scripts/system.sh valgrind && cargo run --release --locked -p forebay-bench -- counts $(if $(WRITE),--write)

gpu-report: ## checks and figures on this machine's GPU, with the last build (REPORT_ARGS="--photographs DIR")
	@python/scripts/gpu_report.sh $(REPORT_ARGS)
