#!/bin/busybox sh
# The first process of the oracle's guest: mounts the host's share, runs its job, powers off.
/bin/busybox mkdir -p /proc /sys /dev /tmp /mnt /job /bin /usr/local/bin
/bin/busybox --install -s /bin
export PATH=/usr/local/bin:/tools:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs -o size=1500m tmpfs /tmp
mount -t debugfs debugfs /sys/kernel/debug
# busybox's own modprobe does not do what the kernel asks for by itself.
echo /tools/modprobe >/proc/sys/kernel/modprobe
for module in virtio_pci 9pnet_virtio 9p; do /tools/modprobe $module; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 host /job || poweroff -f
cp /job/bin/* /usr/local/bin/ 2>/dev/null
cd /job
sh ./job.sh >/job/output 2>&1
echo $? >/job/status
dmesg >/job/dmesg
cd /
sync
umount /job
poweroff -f
