#!/bin/sh
# enter.sh ROOT FILES COMMAND...: runs COMMAND as root of the system in the folder ROOT, which it cannot change: what it writes goes to
# memory and is gone with it. Of the machine it sees /files, the folder FILES, read-only. Namespaces of its own, with a loopback;
# called by `unshare --mount --pid --net --ipc --uts --cgroup --fork`.
set -e
root=$1 files=$2
shift 2
over=$(mktemp -d)
mount --make-rprivate /
mount -t tmpfs over "$over"
mkdir "$over/upper" "$over/work" "$over/root"
mount -t overlay over -o "lowerdir=$root,upperdir=$over/upper,workdir=$over/work" "$over/root"
new=$over/root
mount -t proc proc "$new/proc"
mount -t sysfs -o ro sysfs "$new/sys"
# What of cgroups this machine hands down, where it has those of version 2.
mount -t cgroup2 cgroup2 "$new/sys/fs/cgroup" 2>/dev/null || true
mount -t tmpfs -o mode=755 dev "$new/dev"
for name in null zero full random urandom tty; do
  : >"$new/dev/$name"
  mount --bind "/dev/$name" "$new/dev/$name"
done
mkdir "$new/dev/pts" "$new/dev/shm" "$new/files"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$new/dev/pts"
ln -s pts/ptmx "$new/dev/ptmx"
ln -s /proc/self/fd "$new/dev/fd"
mount -t tmpfs -o mode=1777 shm "$new/dev/shm"
mount -t tmpfs -o mode=755 run "$new/run"
mount --bind -o ro "$files" "$new/files"
ip link set lo up
cd "$new"
pivot_root . mnt
umount -l /mnt
rmdir "/mnt$over" 2>/dev/null || true
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root container=lambent-test "$@"
