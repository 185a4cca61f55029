# The words of the repository; `make help` lists them.
.PHONY: api explore no-std features capi install-capi capi-header capi-check help setup tools demo test test-full test-posix bench dist site wheel fuzz cuts mutants deny advisories \
    evaluate

CARGO ?= cargo
SUDO_HINT = run 'make setup' as root, or install them yourself
# What the kernel oracle needs; xtask/src/kernel.rs names the programs it takes from them.
PACKAGES = qemu-system-x86 mtd-utils busybox-static attr kmod cpio git build-essential fuse3 \
    fakeroot pseudo libcap2-bin genimage squashfs-tools fio strace python3 pkg-config valgrind \
    sleuthkit libxml2-utils e2fsprogs lzop zstd
# What the public suites need.
POSIX_PACKAGES = fuse3 sqlite3 rsync attr acl stress-ng fio dbench make gcc libc6-dev git
# What only the bench needs: its peer reader and time(1).
BENCH_PACKAGES = python3-venv python3-pip liblzo2-dev python3-dev xz-utils time squashfuse fuse2fs e2fsprogs

# What the tests of the local page need.
EXPLORE_PACKAGES = chromium chromium-driver fonts-dejavu-core npm

# What tries the packages: installed in a fresh Debian, unpacked, read.
DIST_CHECK_PACKAGES = fakeroot lintian man-db mandoc mmdebstrap skopeo umoci

# What the evaluation needs: the tools that make the file systems of its guests.
EVALUATE_PACKAGES = f2fs-tools nilfs-tools btrfs-progs xfsprogs dosfstools e2fsprogs

# All steps of the tests share one build, without debug information and incremental artefacts. Clippy
# is its compiler: a run of its own would read and check everything a second time.
LEAN_BUILD = CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
TEST_BUILD = $(LEAN_BUILD) RUSTC_WORKSPACE_WRAPPER=clippy-driver

help:
	@echo "make setup   install the Debian packages the tests need (when root; otherwise name them)"
	@echo "make test    everything a change must pass, with times and counts (cargo xtask test --list)"
	@echo "make test-full   the same with all repetitions and states, on the release build"
	@echo "make cuts    power cuts of every layer, judged, with all states"
	@echo "make explore the page of 'explore' in Chromium, driven by the keyboard"
	@echo "make mutants mistakes made by machine in the write paths; goes on where it stopped"
	@echo "make test-posix  public POSIX suites on mounts, in full"
	@echo "make demo    build the command and run its main job"
	@echo "make bench   compare with the peer tools side by side (STRICT=1: fail when a figure is missed)"
	@echo "make evaluate  published tables of flash, measured again here and in real Linux; writes a report and docs/evaluation.md"
	@echo "make dist    a static program, a Debian package, a container image, wheels, the sources; checksums and an SBOM"
	@echo "             (CHECK=1: builds them again from the packed sources, compares the bytes, installs and uses them)"
	@echo "make site    the documentation as a site with search, in target/site/html (CHECK=1: its links and search)"
	@echo "make wheel   the Python package with the command, in target/wheels"
	@echo "make fuzz    every fuzz target for a few seconds (nightly toolchain)"
	@echo "make deny    licences, bans and sources of all dependencies"
	@echo "make capi    the C library: builds and installs it (PREFIX=/usr/local, DESTDIR=)"
	@echo "make api     the library's public interface, against its list (BASELINE=revision: what breaks users)"

define install
	@missing=""; for package in $(1); do \
	    dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' \
	        || missing="$$missing $$package"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing$$missing"; \
	    apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
	        apt-get -qq install -y --no-install-recommends $$missing >/dev/null; \
	else \
	    echo "not installed:$$missing ($(SUDO_HINT))"; \
	    [ "$$ERASEBLOCK_NO_ORACLE" = 1 ]; \
	fi
endef

setup:
	$(call install,$(PACKAGES))

test test-full: setup
	$(call install,$(POSIX_PACKAGES) $(if $(filter test-full,$@),$(EXPLORE_PACKAGES)))
	@begun=$$(date +%s); export $(TEST_BUILD); $(CARGO) build --quiet --package xtask && \
	    target/debug/xtask test --since $$begun $(if $(filter test-full,$@),--full)

tools: target/tools/bin/pjdfstest

# Power cuts of each layer, all judged.
cuts:
	$(CARGO) build --quiet --release --package eraseblock-cli
	$(CARGO) xtask cuts --full

# Mutants of the write paths; docs/mutants.md describes them.
mutants:
	$(LEAN_BUILD) $(CARGO) xtask mutants --jobs 2

# Public suites on mounts, in full.
test-posix: setup target/tools/bin/pjdfstest
	$(call install,$(POSIX_PACKAGES))
	$(CARGO) build --quiet --release --package eraseblock-cli
	$(CARGO) build --quiet --package eraseblock-fuse --example model
	$(CARGO) xtask posix

# Not optimised: both programs spend their time waiting for the mount under test.
target/tools/bin/pjdfstest:
	$(CARGO) install --quiet --debug pjdfstest@0.2.2 fsx@0.3.2 --locked --root target/tools

# Needs no root and nothing but a Rust toolchain.
demo:
	$(CARGO) build --quiet --profile demo --package eraseblock-cli
	./demo.sh

explore:
	$(call install,$(EXPLORE_PACKAGES))
	$(CARGO) build --quiet --package eraseblock-cli --package xtask
	$(CARGO) xtask explore --figures

bench: setup
	$(call install,$(BENCH_PACKAGES))
	$(CARGO) build --quiet --release --package eraseblock-cli --package xtask
	target/release/xtask bench $(if $(STRICT),--strict)

# Writes target/evaluate and docs/evaluation.md. More than an hour at first, most of it in guests;
# what they measured is kept. `make evaluate QUICK=1` measures less, and leaves the page alone.
evaluate: setup
	$(call install,$(EVALUATE_PACKAGES))
	$(CARGO) build --quiet --release --package xtask --features heap
	target/release/xtask evaluate $(if $(QUICK),--quick,--write)

# Fills target/dist; the same commit and toolchain give the same bytes. maturin and Zig, for the wheels, are
# installed into an environment under target. With CHECK=1 the packed sources
# are built as well, without a network, and everything is installed and used.
dist:
	$(call install,musl-tools binutils dpkg-dev xz-utils python3 python3-venv python3-pip $(if $(CHECK),$(DIST_CHECK_PACKAGES)))
	@! command -v rustup >/dev/null || rustup --quiet target add x86_64-unknown-linux-musl
	$(CARGO) xtask dist $(if $(CHECK),--check)

# Fills target/site/html; the generator is installed into an environment under target.
site:
	$(call install,python3 python3-venv python3-pip mandoc $(if $(CHECK),$(EXPLORE_PACKAGES)))
	$(CARGO) build --quiet --package eraseblock-cli
	$(CARGO) xtask site $(if $(CHECK),--check)

# Fills target/wheels with a wheel for systems like this one; `make dist` makes those for older ones.
wheel:
	$(call install,python3 python3-venv python3-pip)
	$(CARGO) xtask wheel

# The formats for machines without an operating system.
no-std:
	@! command -v rustup >/dev/null || rustup --quiet target add thumbv7em-none-eabihf
	$(CARGO) check --quiet --no-default-features --target thumbv7em-none-eabihf \
	    --package eraseblock-base --package eraseblock-ubi-format \
	    --package eraseblock-ubifs-format --package eraseblock-jffs2-format --package eraseblock-yaffs-format

# The C library: `make capi PREFIX=/usr/local DESTDIR=...` installs it with its header.
PREFIX ?= /usr/local
BUILT ?= target/release
CAPI_VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
CAPI_SONAME = liberaseblock.so.$(basename $(CAPI_VERSION))
capi:
	$(CARGO) build --quiet --release --package eraseblock-capi
	$(MAKE) --no-print-directory install-capi

install-capi:
	install -D -m 644 crates/capi/include/eraseblock.h $(DESTDIR)$(PREFIX)/include/eraseblock.h
	install -D -m 755 $(BUILT)/liberaseblock_capi.so $(DESTDIR)$(PREFIX)/lib/liberaseblock.so.$(CAPI_VERSION)
	ln -sf liberaseblock.so.$(CAPI_VERSION) $(DESTDIR)$(PREFIX)/lib/$(CAPI_SONAME)
	ln -sf $(CAPI_SONAME) $(DESTDIR)$(PREFIX)/lib/liberaseblock.so
	install -D -m 644 $(BUILT)/liberaseblock_capi.a $(DESTDIR)$(PREFIX)/lib/liberaseblock.a
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's#@PREFIX@#$(PREFIX)#; s/@VERSION@/$(CAPI_VERSION)/' crates/capi/eraseblock.pc.in \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/eraseblock.pc

# The header of the C library, from its sources; HEADER=FILE writes it elsewhere.
HEADER ?= crates/capi/include/eraseblock.h
capi-header: target/tools/bin/cbindgen
	target/tools/bin/cbindgen --quiet --config crates/capi/cbindgen.toml crates/capi > $(HEADER)

# The header in the repository is that of the sources.
capi-check:
	@$(MAKE) --no-print-directory capi-header HEADER=target/eraseblock.h
	cmp target/eraseblock.h crates/capi/include/eraseblock.h

target/tools/bin/cbindgen:
	$(CARGO) install --quiet --debug cbindgen@0.29.4 --locked --root target/tools

# Each feature of the library by itself.
features:
	@for feature in $$(sed -n '/^\[features\]/,/^\[dep/s/^\([a-z]*\) = .*/\1/p' crates/eraseblock/Cargo.toml); do \
	    RUSTFLAGS='-D warnings' $(CARGO) check --quiet --package eraseblock --no-default-features \
	        --features $$feature || { echo "feature $$feature"; exit 1; }; \
	done

fuzz:
	./fuzz/run.sh

target/tools/bin/cargo-deny:
	$(CARGO) install --quiet cargo-deny --locked --no-default-features --root target/tools

deny: target/tools/bin/cargo-deny
	target/tools/bin/cargo-deny --log-level error check licenses bans sources

# The public interface of the library: any change of it must be listed. Programs of the last release,
# in C as well, must not break.
api: target/tools/bin/cargo-public-api target/tools/bin/cargo-semver-checks
	$(call install,gcc libc6-dev abigail-tools)
	@! command -v rustup >/dev/null || rustup run nightly rustc --version >/dev/null 2>&1 \
	    || rustup --quiet toolchain install nightly --profile minimal
	$(CARGO) xtask api $(if $(BASELINE),--baseline $(BASELINE))

target/tools/bin/cargo-public-api:
	$(CARGO) install --quiet --debug cargo-public-api@0.52.0 --locked --root target/tools

target/tools/bin/cargo-semver-checks:
	$(CARGO) install --quiet --debug cargo-semver-checks@0.51.0 --locked --root target/tools

# Needs the network for the advisory database.
advisories: target/tools/bin/cargo-deny
	target/tools/bin/cargo-deny check advisories
