#!/bin/sh
# Asks a daemon for everything in the API's document, with and without a login, in ways that nobody meant (schemathesis):
# finds answers of 5xx, answers that the document does not know, and operations that forget to ask who is there.
# A daemon of its own on file disks in a folder that is thrown away; nothing else is touched.
#   scripts/api-fuzz.sh HOLDFAST [SECONDS for each part]
set -eu
binary=$1
seconds=${2:-40}
version=4.32.5
root=$(cd "$(dirname "$0")/.." && pwd)
tools=${CARGO_TARGET_DIR:-$root/target}/schemathesis-$version

if [ ! -x "$tools/bin/schemathesis" ]; then
    echo "api-fuzz: installing schemathesis $version"
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
fi

folder=$(mktemp -d)
daemon=
finish() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    [ -z "$daemon" ] || wait "$daemon" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

"$binary" serve --state "$folder/state" --socket "$folder/api" --nbd "unix:$folder/nbd" --iscsi 127.0.0.1:0 --reactors 1 \
    --https 127.0.0.1:0 >"$folder/out" 2>"$folder/log" &
daemon=$!
export HOLDFAST_SOCKET="$folder/api"
tries=0
until "$binary" status >/dev/null 2>&1 && grep -A1 SHA-256 "$folder/out" | grep -q '^ *[0-9A-Fa-f:]\{32,\}$'; do
    tries=$((tries + 1))
    [ "$tries" -lt 1800 ] || { cat "$folder/log" >&2; exit 1; }
    sleep 0.1
done
for number in 1 2 3 4; do
    "$binary" disk create-file "$folder/disk$number" --size 256MiB >/dev/null
done
"$binary" pool create tank --disk "$folder/disk1" "$folder/disk2" "$folder/disk3" >/dev/null
"$binary" space create tank/vm --layout mirror --size 64MiB >/dev/null
"$binary" nbd export tank/vm >/dev/null
"$binary" target create vm >/dev/null
"$binary" lun add vm tank/vm >/dev/null
printf 'a secret for the fuzzer\n' | "$binary" initiator allow vm iqn.2000-01.org.example:fuzzer --chap fuzzer >/dev/null
printf 'a password for the fuzzer\n' | "$binary" account create fuzzer --role administrator >/dev/null

export XDG_CONFIG_HOME="$folder/config"
server=$(grep -o -m 1 'https://127[0-9.:]*' "$folder/out")
pin=$(grep -A1 SHA-256 "$folder/out" | tail -n 1 | tr -d ' ')
printf 'a password for the fuzzer\n' | "$binary" login "$server" --account fuzzer --fingerprint "$pin" >/dev/null
token=$("$binary" --server "$server" token create fuzz --role administrator --expires 1h 2>/dev/null)

# Left out: what never ends; for the administrator also what would end its own rights, and what could take or wipe disks of
# the machine that are none of the test's.
run() {
    "$tools/bin/schemathesis" --config-file "$folder/schemathesis.toml" run "$root/docs/openapi.json" --url "$server" \
        --tls-verify=false --no-color --workers 2 --max-time "$seconds" --seed 1 --suppress-health-check=all \
        --request-timeout 30 --max-examples 8 "$@"
}
cd "$folder"
echo "api-fuzz: without a login"
: >schemathesis.toml
run --checks not_a_server_error,ignored_auth --exclude-operation-id-regex '^(event_follow|live)$' >open 2>&1 ||
    { tail -n 150 open; exit 1; }
tail -n 4 open
echo "api-fuzz: as an administrator"
printf '[auth.openapi.token]\nbearer = "%s"\n' "$token" >schemathesis.toml
run --checks not_a_server_error,ignored_auth,content_type_conformance,response_schema_conformance \
    --exclude-operation-id-regex '^(event_follow|live|account_set|account_delete|token_delete|session_.*|setup|disk_create_file|disk_wipe|disk_replace|pool_create|pool_add|pool_import|pool_salvage)$' \
    >closed 2>&1 || { tail -n 200 closed; exit 1; }
tail -n 4 closed
"$binary" status >/dev/null
if grep -E "hf_[0-9a-f]{64}|a password for the fuzzer|a secret for the fuzzer|panicked" log; then
    echo "api-fuzz: the log holds a secret, or the daemon panicked" >&2
    exit 1
fi
