#!/bin/sh
# Fuzzes every target over its kept corpus and fails on the first crash. What is found new goes to a folder that is thrown away; a
# crash is left in fuzz/artifacts.
#
#   fuzz-short.sh            the same inputs each time, about a minute of them, so that only a change can make it fail
#   fuzz-short.sh SECONDS    new ones each time, SECONDS for each target
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-}
version=0.13.2

if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzz-short: installing cargo-fuzz $version"
    cargo install --quiet --locked cargo-fuzz --version "$version"
fi

found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
for target in $(cargo fuzz list); do
    mkdir -p "$found/$target"
    case $target in
    salvage) runs=20000 ;;
    *) runs=1500000 ;;
    esac
    if [ -n "$seconds" ]; then
        set -- -max_total_time="$seconds"
    else
        set -- -seed=1 -runs="$runs"
    fi
    # Without a sanitizer the stable toolchain builds it: this is Rust without unsafe code, so its own checks find the faults.
    cargo fuzz run --sanitizer none "$target" "$found/$target" "fuzz/corpus/$target" -- \
        "$@" -timeout=10 -rss_limit_mb=1024 -max_len=131072 -print_final_stats=1 </dev/null
done
