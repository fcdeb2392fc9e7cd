#!/bin/sh
# Makes clients of the API's document with two generators, one of Python and one of TypeScript, and asks a daemon through
# both: a document that generators stumble over, or whose numbers clients cannot hold, is found here.
# A daemon of its own on file disks in a folder that is thrown away; nothing else is touched.
#   scripts/api-clients.sh HOLDFAST
set -eu
binary=$1
python=0.29.1
typescript=7.26.0
root=$(cd "$(dirname "$0")/.." && pwd)
tools=${CARGO_TARGET_DIR:-$root/target}/api-clients-$python-$typescript
modules=$root/manage/web/node_modules/.bin

if [ ! -x "$tools/bin/openapi-generator-cli" ]; then
    echo "api-clients: installing openapi-python-client $python and openapi-generator $typescript"
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check "openapi-python-client==$python" \
        "openapi-generator-cli==$typescript" ruff
fi
export PATH="$tools/bin:$modules:$PATH"

folder=$(mktemp -d)
daemon=
finish() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    [ -z "$daemon" ] || wait "$daemon" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
cd "$folder"

echo "api-clients: making them"
openapi-python-client generate --path "$root/docs/openapi.json" --meta none --output-path holdfast_client \
    --fail-on-warning >made 2>&1 || { tail -n 60 made; exit 1; }
openapi-generator-cli generate -i "$root/docs/openapi.json" -g typescript-fetch -o typescript >made 2>&1 ||
    { tail -n 60 made; exit 1; }
tsc --target es2022 --module nodenext --moduleResolution nodenext --lib es2022,dom --skipLibCheck --outDir javascript \
    typescript/index.ts
echo '{ "type": "commonjs" }' >javascript/package.json

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$binary" serve --state "$folder/state" --socket "$folder/api" --nbd "unix:$folder/nbd" --reactors 1 \
    --https "127.0.0.1:$port" >"$folder/out" 2>"$folder/log" &
daemon=$!
export HOLDFAST_SOCKET="$folder/api"
tries=0
until "$binary" status >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || { cat "$folder/log" >&2; exit 1; }
    sleep 0.1
done
for number in 1 2 3; do
    "$binary" disk create-file "$folder/disk$number" --size 256MiB >/dev/null
done
printf 'a password for clients\n' | "$binary" account create client --role administrator >/dev/null
export XDG_CONFIG_HOME="$folder/config"
server=https://127.0.0.1:$port
pin=$(grep -A1 SHA-256 "$folder/out" | tail -n 1 | tr -d ' ')
printf 'a password for clients\n' | "$binary" login "$server" --account client --fingerprint "$pin" >/dev/null
TOKEN=$("$binary" --server "$server" token create clients --role administrator --expires 1h 2>/dev/null)
SERVER=$server
FOLDER=$folder
export TOKEN SERVER FOLDER

echo "api-clients: Python"
cat >client.py <<'P'
import os

from holdfast_client import AuthenticatedClient
from holdfast_client.api.disks import disk_list
from holdfast_client.api.pools import pool_create, pool_show
from holdfast_client.api.status import status
from holdfast_client.api.volumes import volume_create, volume_journal_set, volume_journal_show, volume_list
from holdfast_client.models import CreatePool, CreateSpace, CreateVolume, LayoutKind, SetVolumeJournal

client = AuthenticatedClient(base_url=os.environ["SERVER"], token=os.environ["TOKEN"], verify_ssl=False)
disks = disk_list.sync(client=client)
paths = [disk.path for disk in disks if disk.path.startswith(os.environ["FOLDER"])]
assert len(paths) == 3, disks
pool_create.sync(client=client, body=CreatePool(name="tank", disks=paths))
pool = pool_show.sync("tank", client=client)
assert pool.name == "tank" and len(pool.disks) == 3 and str(pool.health) == "healthy", pool
space = CreateSpace(name="tank/files", layout=LayoutKind.MIRROR, size_bytes=128 << 20)
volume_create.sync(client=client, body=CreateVolume(name="tank/files", space=space))
assert [volume.name for volume in volume_list.sync(client=client)] == ["tank/files"]
made = volume_journal_set.sync("tank", "files", client=client, body=SetVolumeJournal())
assert made.journal.id == volume_journal_show.sync("tank", "files", client=client).id and int(made.journal.id) > 2**53, made
assert len(status.sync(client=client).objects) > 0
refused = pool_show.sync("none", client=client)
assert refused.error.code == "not-found", refused
P
python3 client.py || { tail -n 30 log; exit 1; }

echo "api-clients: TypeScript"
cat >client.mjs <<'J'
import assert from 'node:assert/strict';
import api from './javascript/index.js';

process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
const of = new api.Configuration({ basePath: process.env.SERVER, accessToken: process.env.TOKEN });
const pool = await new api.PoolsApi(of).poolShow({ pool: 'tank' });
assert.equal(pool.name, 'tank');
assert.equal(pool.disks.length, 3);
const volumes = new api.VolumesApi(of);
assert.deepEqual((await volumes.volumeList()).map((volume) => volume.name), ['tank/files']);
const { id } = await volumes.volumeJournalShow({ pool: 'tank', volume: 'files' });
const read = await volumes.volumeJournalRead({ pool: 'tank', volume: 'files', id });
assert.equal(read.id, id);
assert.equal(read.gap, false);
assert.ok(BigInt(id) > 2n ** 53n);
const refused = await new api.PoolsApi(of).poolShow({ pool: 'none' }).catch((error) => error.response.status);
assert.equal(refused, 404);
J
node --no-warnings client.mjs || { tail -n 30 log; exit 1; }
echo "api-clients: both work"
