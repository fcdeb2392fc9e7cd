#!/bin/sh
# Runs the parts of `make test` that are named, all of them even if one fails, and says at the end which failed.
# HOLDFAST_BIN names the daemon that was built.
#   test-parts.sh PART...      rust · api-fuzz · api-clients · console · fuzz
set -u
cd "$(dirname "$0")/.."

run() {
    case $1 in
    rust) "${CARGO:-cargo}" test --workspace --no-fail-fast ;;
    api-fuzz) scripts/api-fuzz.sh "$HOLDFAST_BIN" ;;
    api-clients) scripts/api-clients.sh "$HOLDFAST_BIN" ;;
    console) (cd manage/web && npm test) ;;
    fuzz) scripts/fuzz-short.sh ;;
    *)
        echo "test-parts: no part is called $1; next: one of rust, api-fuzz, api-clients, console, fuzz" >&2
        return 2
        ;;
    esac
}

passed=0
failed=0
names=""
for part in "$@"; do
    if run "$part"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        names="$names $part"
    fi
done
[ "$failed" -eq 0 ] || echo "these parts failed:$names"
echo "parts: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
