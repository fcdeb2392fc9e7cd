#!/bin/busybox sh
# The first program of the emulated machine: modules and the network, then commands from the second serial line, one a line.
# After each it says how that ended.
/bin/busybox --install -s /bin
export PATH=/sbin:/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
mkdir -p /run/lock /run/udev /dev/shm /var/lib/iscsi
for module in $(cat /etc/modules); do modprobe "$module"; done
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
/lib/systemd/systemd-udevd --daemon >/dev/null 2>&1
exec </dev/ttyS1 >/dev/ttyS1 2>&1
stty raw -echo
echo "@@ready@@"
while read -r line; do
    (eval "$line") </dev/null
    echo "@@ended $?@@"
done
poweroff -f
