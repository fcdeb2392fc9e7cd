#!/bin/sh
# Installs the Debian 12 packages that building and testing Holdfast need, and names them where it may not install; then
# the programs that come from the registry of crates.
set -eu

build="gcc g++ libc6-dev make ca-certificates git"
clients="libnbd-bin nbdkit qemu-utils fio openssl curl python3-venv stress-ng"
systems="util-linux mount e2fsprogs xfsprogs btrfs-progs fuse3 postgresql-15"
initiators="libiscsi-bin qemu-block-extra tgt"
# What an emulated machine is made of. The kernel is only unpacked, below target/tools, and so is what runs beside it there.
machine="qemu-system-x86 busybox-static cpio kmod"
oracles="libisal2 libacl1-dev"
browser="chromium"
# Any Node will do to begin with: the console's packages bring their own.
command -v npm >/dev/null || build="$build nodejs npm"
# A generator of clients of the API runs on any Java.
command -v java >/dev/null || clients="$clients default-jre-headless"

missing=""
for package in $build $clients $systems $initiators $machine $oracles $browser; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
install_programs() {
    # A suite of POSIX for file systems, and an exerciser of files. Without one its test says that it was left out.
    tools="${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/tools"
    for program in pjdfstest@0.2.2 fsx@0.3.2; do
        name="${program%@*}"
        [ -x "$tools/bin/$name" ] || cargo install --quiet --locked --root "$tools" "$program" </dev/null ||
            echo "$name could not be installed: its test is left out" >&2
    done
    # A host for tests of iSCSI, emulated. Without it they are left out.
    "$(dirname "$0")/machine.sh" "$(mkdir -p "$tools" && cd "$tools" && pwd)/machine" ||
        echo "no machine could be made: tests with the initiator of a kernel are left out" >&2
}

if [ -z "$missing" ]; then
    install_programs
    exit 0
fi

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
install_programs
