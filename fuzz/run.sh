#!/bin/sh
# Every fuzz target for SECONDS_EACH (5 unless set) seconds, beginning with seeds made by our own
# writers. Needs the nightly toolchain and a C++ compiler; cargo-fuzz is not needed.
set -eu
cd "$(dirname "$0")"
seconds=${SECONDS_EACH:-5}
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
mkdir -p corpus artifacts
cargo +nightly run --quiet --example seeds -- corpus
# What cargo-fuzz passes for coverage feedback.
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
export RUSTFLAGS
cargo +nightly build --quiet --target "$host" --bins
for source in fuzz_targets/*.rs; do
    name=$(basename "$source" .rs)
    mkdir -p "corpus/$name"
    echo "fuzz: $name"
    "target/$host/debug/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -max_len=1048576 -verbosity=0 -print_final_stats=0 \
        -artifact_prefix="artifacts/$name-" "corpus/$name"
done
