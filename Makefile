# The few words of this repository. `make test` is everything a change must pass.

CARGO ?= cargo
PACKAGES := qemu-system-x86 mtd-utils busybox-static attr kmod cpio time python3-venv

.PHONY: help setup demo test bench fuzz deny clean

help:
	@echo "make demo   build, make an image of a folder, look into it, read it back"
	@echo "make test   everything a change must pass (what CI runs)"
	@echo "make bench  our command against its peers, side by side, in one run"
	@echo "make fuzz   every fuzz target for a few seconds"
	@echo "make deny   licences and sources of all dependencies"

# Debian packages: installed when root, named otherwise.
setup:
	@missing=""; for package in $(PACKAGES); do \
	    dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' \
	        || missing="$$missing $$package"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" -ne 0 ]; then \
	    echo "missing Debian packages:$$missing"; \
	    echo "hint: sudo apt-get install$$missing"; exit 1; fi; \
	echo "installing:$$missing"; \
	apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
	    apt-get -qq install -y --no-install-recommends $$missing >/dev/null

# Needs no root: only a Rust toolchain.
demo:
	$(CARGO) build --quiet --release --package eraseblock
	./demo.sh

test: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --quiet --workspace --all-targets -- -D warnings
	$(CARGO) test --quiet --workspace
	$(CARGO) xtask tidy
	$(CARGO) build --quiet --release --package eraseblock --package xtask
	./target/release/xtask mutate --count 100000
	$(MAKE) deny
	./target/release/xtask oracle

bench: setup
	$(CARGO) build --quiet --release --package eraseblock --package xtask
	./target/release/xtask bench

fuzz:
	./fuzz/run.sh

deny: target/tools/bin/cargo-deny
	target/tools/bin/cargo-deny --log-level error check licenses bans sources

target/tools/bin/cargo-deny:
	$(CARGO) install --quiet --locked --no-default-features --root target/tools cargo-deny

clean:
	$(CARGO) clean
