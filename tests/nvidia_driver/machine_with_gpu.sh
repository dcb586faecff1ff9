# Runs a program in a mount namespace that looks like a machine with one GPU of NVIDIA's: /dev with its device files (which are
# /dev/null) and /sys with the module's version. Outside nothing changes. For unshare -m bash machine_with_gpu.sh VERSION FOLDER PROGRAM...
set -e
version=$1
dev=$2
shift 2
mount --make-rprivate /
mount -t tmpfs tmpfs "$dev"
for name in null zero full random urandom tty; do
  touch "$dev/$name"
  mount --bind "/dev/$name" "$dev/$name"
done
for name in nvidiactl nvidia-uvm nvidia0; do
  touch "$dev/$name"
  mount --bind /dev/null "$dev/$name"
done
mkdir "$dev/shm" "$dev/pts"
mount --rbind /dev/shm "$dev/shm"
mount --rbind /dev/pts "$dev/pts"
ln -s /dev/pts/ptmx "$dev/ptmx"
ln -s /proc/self/fd "$dev/fd"
mount --rbind "$dev" /dev
mount -t tmpfs tmpfs /sys/module
mkdir /sys/module/nvidia
echo "$version" >/sys/module/nvidia/version
exec "$@"
