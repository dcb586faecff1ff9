#!/usr/bin/env bash
# The archive for machines with a GPU in a root file system that has a shell, the C library and some small programs, and nothing else: no Python,
# no libraries of ours. gpu_root_test.sh GPU.SH; 77 where no such root can be entered.
set -euo pipefail
script="$1"
fail() { echo "not so: $*" >&2; exit 1; }
enter=(unshare --mount --pid --net --ipc --uts --fork)
[ "$(id -u)" -eq 0 ] || enter=(unshare --user --map-root-user --mount --pid --net --ipc --uts --fork)
if ! "${enter[@]}" true 2>/dev/null; then
  echo "this user may not make namespaces, so no other root can be entered"
  exit 77
fi
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
root="$folder/root"
mkdir -p "$root"/{usr/bin,usr/sbin,etc,proc,sys,dev,tmp,run,root,home,mnt}
for name in bin sbin lib lib64; do
  mkdir -p "$root/usr/$name"
  ln -s "usr/$name" "$root/$name"
done
# What the smallest systems have: bash, coreutils, findutils, grep, sed, awk, util-linux.
for program in bash sh env timeout cat cp mkdir mktemp mv rm sed grep awk tail head sort tr cut date sleep seq getconf ldconfig uname readlink dirname \
  basename setsid wc paste id true ls umount; do
  path="$(command -v "$program" || true)"
  path="$(readlink -f "${path:-/usr/sbin/$program}")"
  [ -x "$path" ] || continue
  cp "$path" "$root/usr/bin/$program"
  { ldd "$path" 2>/dev/null || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    [ -e "$root$library" ] || cp -L "$library" "$root$library"
  done
done
printf 'root:x:0:0:root:/root:/bin/bash\n' >"$root/etc/passwd"
for name in null zero full random urandom; do : >"$root/dev/$name"; done
# The rest of the C library, which every system has.
for library in libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libgcc_s.so.1; do
  path="$(ldconfig -p | awk -v name="$library" '$1 == name && !seen++ {print $NF}')"
  [ -z "$path" ] || { mkdir -p "$root$(dirname "$path")" && cp -L "$path" "$root$path"; }
done
"$script" --pack "$folder/pack.tar.gz"
tar -C "$root/root" -xzf "$folder/pack.tar.gz"

cat >"$folder/within.sh" <<'WITHIN'
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
for name in null zero full random urandom; do mount --bind "/dev/$name" "$1/dev/$name"; done
mount -t tmpfs -o mode=1777 tmp "$1/tmp"
ip link set lo up 2>/dev/null || true
cd "$1"
pivot_root . mnt
umount -l /mnt
cd /
exec /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root bash /root/lambent-gpu-tests/gpu.sh --emulated --quick \
  --suites 'Devices Interprocess Mig Launch' --out /root/out
WITHIN
status=0
"${enter[@]}" bash "$folder/within.sh" "$root" >"$folder/said" 2>&1 || status=$?
[ "$status" -eq 0 ] || { tail -60 "$root/root/out/log.txt" 2>/dev/null; cat "$folder/said"; fail "the archive runs in an empty root"; }
result="$root/root/out/result.json"
grep -q '"complete": true' "$result" || fail "the result is whole"
for step in doctor swap shim device conformance; do
  grep -q "\"name\": \"$step\", \"outcome\": \"ok\"" "$result" || { cat "$folder/said"; fail "$step runs there"; }
done
for step in machine driver_memory mps blas; do
  grep -q "\"name\": \"$step\", \"outcome\": \"not-checked\".*no python3" "$result" || { cat "$folder/said"; fail "$step says that it lacks Python"; }
done
grep '== .*: ' "$folder/said"
