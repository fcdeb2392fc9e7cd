#!/bin/sh
# Fuzzes every target over its kept corpus and fails on the first crash. What is found new goes to a folder that is thrown away; a
# crash is left in fuzz/artifacts.
#
#   fuzz-short.sh                   the same inputs each time, about a minute of them, so that only a change can make it fail
#   fuzz-short.sh SECONDS [TARGET]  new ones each time, SECONDS for each target
set -eu
cd "$(dirname "$0")/../fuzz"
seconds=${1:-}
targets=${2:-$(cd fuzz_targets && ls ./*.rs | sed 's|^./||; s|\.rs$||')}
triple=$(rustc -vV | sed -n 's/^host: //p')

# The stable toolchain counts edges and traces comparisons without further tools. There is no sanitizer: this is Rust without
# unsafe code, so its own checks find the faults.
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags="$flags -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags="$flags -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0"
RUSTFLAGS="$flags -Cdebug-assertions" cargo build --release --locked --bins --target "$triple" --target-dir target

found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
for target in $targets; do
    mkdir -p "$found/$target" "artifacts/$target"
    case $target in
    salvage) runs=20000 ;;
    volume) runs=600 ;;
    nbd) runs=1500000 ;;
    *) runs=300000 ;;
    esac
    if [ -n "$seconds" ]; then
        set -- -max_total_time="$seconds"
    else
        set -- -seed=1 -runs="$runs"
    fi
    echo "fuzz-short: $target"
    "target/$triple/release/$target" "$found/$target" "corpus/$target" "$@" -artifact_prefix="artifacts/$target/" \
        -timeout=10 -rss_limit_mb=1024 -max_len=131072 -print_final_stats=1 </dev/null
done
