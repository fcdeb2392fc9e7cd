#!/bin/bash
# Makes an emulated machine for tests: machine.sh FOLDER puts Debian's kernel there, and an initramfs with its iSCSI initiator
# and its multipath tools. Nothing of it is installed: packages are only unpacked. Does nothing if it is there already.
set -euo pipefail

folder="$1"
here="$(cd "$(dirname "$0")" && pwd)"
stamp="$(cksum "$here/machine.sh" "$here/machine-init.sh" | cksum)"
[ "$(cat "$folder/stamp" 2>/dev/null || true)" != "$stamp" ] || exit 0

modules="virtio_pci virtio_net iscsi_tcp sd_mod dm_multipath dm_round_robin dm_service_time scsi_dh_alua ext4 crc32c_generic"
packages="open-iscsi multipath-tools libopeniscsiusr libisns0 libaio1 liburcu8 libdevmapper1.02.1 libedit2 libjson-c5
    libbsd0 libmd0 libkmod2 udev dmsetup"
rules="50-udev-default 55-dm 56-dm-mpath 60-block 60-multipath 60-persistent-storage 60-persistent-storage-dm 95-dm-notify"

kernel="$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-/ { print $2; exit }')"
[ -n "$kernel" ] || { echo "apt knows no kernel: run apt-get update" >&2; exit 1; }
version="${kernel#linux-image-}"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
from="$work/unpacked"
to="$work/root"
mkdir -p "$folder" "$from" "$to"
chmod 755 "$work"

# shellcheck disable=SC2086
(cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$kernel" $packages)
for package in "$work"/*.deb; do
    case "$package" in
    */linux-image-*) dpkg --fsys-tarfile "$package" | tar -x -C "$from" ./boot ./lib/modules ;;
    *) dpkg -x "$package" "$from" ;;
    esac
done
depmod -b "$from" "$version"

cd "$to"
mkdir -p bin sbin lib64 lib/x86_64-linux-gnu lib/udev/rules.d lib/systemd lib/multipath "lib/modules/$version" \
    etc/iscsi etc/multipath dev proc sys run tmp var/lib mnt

for module in $modules; do
    sed -n "s/:/ /; /\/${module//_/[-_]}\.ko /p" "$from/lib/modules/$version/modules.dep" | tr ' ' '\n'
done | sort -u | while read -r file; do
    [ -z "$file" ] || install -D -m 644 "$from/lib/modules/$version/$file" "lib/modules/$version/$file"
done
depmod -b "$to" "$version" 2>/dev/null

programs="$from/sbin/iscsid $from/sbin/iscsiadm $from/sbin/multipath $from/sbin/multipathd $from/sbin/mpathpersist
    $from/sbin/dmsetup $from/bin/udevadm $from/lib/udev/scsi_id $(command -v mke2fs) $(command -v e2fsck)"
checkers="$from/lib/multipath"
cp "$checkers"/lib{checktur,checkdirectio,prioalua,prioconst,priosysfs}.so lib/multipath/
# Threads of C end through this library, which no program names.
libraries="$(ldconfig -p | awk '/libgcc_s.so.1 / { print $NF; exit }')"
for program in $programs lib/multipath/*.so; do
    libraries="$libraries $(LD_LIBRARY_PATH="$from/lib/x86_64-linux-gnu:$from/usr/lib/x86_64-linux-gnu:$from/lib" \
        ldd "$program" | awk '/=> \// { print $3 } /^\t\/lib64/ { print $1 } /not found/ { print "lacks " $1 > "/dev/stderr" }')"
done
for library in $libraries; do
    case "$library" in
    /lib64/*) cp -L "$library" lib64/ ;;
    *) cp -L "$library" lib/x86_64-linux-gnu/ ;;
    esac
done
for program in $programs; do cp -L "$program" sbin/; done
mv sbin/scsi_id lib/udev/
ln -s mke2fs sbin/mkfs.ext4
ln -s /sbin/udevadm lib/systemd/systemd-udevd
for rule in $rules; do cp "$from/lib/udev/rules.d/$rule.rules" lib/udev/rules.d/; done

cp "$(command -v busybox)" bin/busybox
echo "root:x:0:0::/:/bin/sh" >etc/passwd
printf 'root:x:0:\ndisk:x:6:\n' >etc/group
echo "$modules" >etc/modules
cp "$here/machine-init.sh" init
chmod 755 init

find . | cpio --quiet -o -H newc >"$folder/initramfs"
cp "$from/boot/vmlinuz-$version" "$folder/kernel"
echo "$stamp" >"$folder/stamp"
