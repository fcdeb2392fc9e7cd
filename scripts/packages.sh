#!/bin/sh
# Installs the Debian 12 packages that building and testing Holdfast need; names them where it may not install.
set -eu

build="gcc g++ libc6-dev make ca-certificates git"
clients="libnbd-bin nbdkit qemu-utils fio openssl curl python3-venv"
systems="util-linux mount e2fsprogs btrfs-progs fuse3 postgresql-15"
oracles="libisal2"
browser="chromium"
# Any Node will do to begin with: the console's packages bring their own.
command -v npm >/dev/null || build="$build nodejs npm"

missing=""
for package in $build $clients $systems $oracles $browser; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "Packages are missing. As root, run: apt-get update && apt-get install --no-install-recommends$missing" >&2
    exit 1
fi

# The tests start PostgreSQL in a folder of their own: a server for the whole machine is not wanted.
case "$missing" in
*postgresql*)
    mkdir -p /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/holdfast-tests.conf
    ;;
esac

export DEBIAN_FRONTEND=noninteractive
apt-get update -q </dev/null
# shellcheck disable=SC2086
apt-get install -q -y --no-install-recommends $missing </dev/null
