#!/usr/bin/env bash
# bundle_program_test.sh LAMBENT_BUNDLE KERNELS: the program as a user meets it.
set -euo pipefail
program=$1 kernels=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() { echo "FAILED: $*" >&2; exit 1; }
# expect CODE TEXT command...: the exit code, and a text in the output.
expect() {
  local code=$1 text=$2 got=0
  shift 2
  "$@" >output 2>&1 || got=$?
  [ "$got" -eq "$code" ] || { cat output >&2; fail "exit code $got, not $code: $*"; }
  grep -qF -- "$text" output || { cat output >&2; fail "no '$text' in the output of: $*"; }
}

expect 0 "Example:" "$program" build --help
expect 2 "" "$program" build
expect 15 "no such source file" "$program" build missing.cu -o b
expect 0 "kernel matmul_tiled_16 = matmul_tiled<16>" "$program" build "$kernels/matmul_tiled.cu" -o b
expect 0 '"name": "matmul_tiled"' "$program" show b --json
expect 0 "matmul_tiled" "$program" build "$kernels/matmul_tiled.cu" -o b   # again, over itself
[ ! -e b.new ] || fail "the scratch folder was left behind"

# What was changed after the build is refused.
echo x >>b/src/matmul_tiled.cu
expect 25 "does not match its hash" "$program" show b
expect 15 "is no kernel bundle" "$program" show /
mkdir -p full device && touch full/file
expect 16 "is no kernel bundle" "$program" build "$kernels/matmul_tiled.cu" -o full
[ -e full/file ] || fail "a foreign folder was changed"

# Compile errors come with the compiler's words and the place.
{ echo '#include <lambent/kernel.h>'; echo 'extern "C" __global__ void k() { undeclared = 1; }'; } >bad.cu
expect 13 "bad.cu:2:" "$program" build bad.cu -o bad
{ echo '#include <lambent/kernel.h>'; echo 'extern "C" __global__ void k() {}'; } >none.cu
expect 13 "registers no kernel" "$program" build none.cu -o none
unsupported() {  # NAME BODY MESSAGE
  printf '#include <lambent/kernel.h>\nextern "C" __global__ void k(int* p) { %s }\nLAMBENT_KERNEL(k);\n' "$2" >"$1.cu"
  expect 13 "$3" "$program" build "$1.cu" -o "$1"
  expect 13 "$3" "$program" build "$1.cu" -o "$1" --host-compiler g++
}
unsupported ptx 'asm volatile("mov.u32 %%0, 1;" : "=r"(*p));' "inline_PTX_is_not_supported_in_host_kernels"
refused_header() {  # HEADER MESSAGE
  printf '#include <lambent/kernel.h>\n#include <%s>\nextern "C" __global__ void k(int* p) {}\nLAMBENT_KERNEL(k);\n' "$1" >header.cu
  expect 13 "$2 is not supported in host kernels" "$program" build header.cu -o header
}
refused_header cuda/atomic cuda::atomic
unsupported structure '__shfl_sync(~0u, int4{}, 0);' "warp operations take values of at most 8 bytes"
unsupported half_maximum 'atomicMax((float*)p, 1.0f);' "atomicMax is for integers"
unsupported texture '*p = texCubemapGrad<int>(0, 0, 0, 0, 0, 0);' "texCubemapGrad is not supported in host kernels"

# Programs whose kernels launch kernels have a version of the ABI that older drivers refuse.
abi_version() {  # BODY: of a kernel's module
  printf '__global__ void c() {}\n__global__ void p() { %s }\nint main() { p<<<1, 1>>>(); c<<<1, 1>>>(); }\n' "$1" >launches.cu
  "$program" host launches.cu -o launches.so >&2
  python3 -B -c 'import ctypes; print(ctypes.c_uint16.in_dll(ctypes.CDLL("./launches.so"), "emulated_kernel__Z1pv").value)'
  rm launches.so
}
[ "$(abi_version '')" = 2 ] || fail "a plain kernel is not of the first version"
[ "$(abi_version 'c<<<1, 1>>>();')" = 3 ] || fail "older drivers would take a kernel that launches"

# Device code, where there is a toolkit.
if [ -e b/compute_80.ptx ]; then
  for source in "$kernels"/*.cu "$kernels"/testing/{warps,groups,numbers}.cu; do
    name=$(basename "$source" .cu)
    built=$(dirname "$program")/../share/lambent/kernels/$name
    # What the build has made already, with a toolkit, is not compiled again.
    if [ "$name" != matmul_tiled ] && [ -e "$built/compute_80.ptx" ]; then
      cp -r "$built" "device/$name"
    else
      expect 0 "compute_80.ptx" "$program" build "$source" -o "device/$name"
    fi
    grep -q "^.target sm_80" "device/$name/compute_80.ptx" || fail "no PTX for $name"
    # A register that NVIDIA's headers call %temp cannot be told from one of a later version.
    [ "$name" = numbers ] || grep -q "^.version 7.0$" "device/$name/compute_80.ptx" || fail "PTX of $name is for newer drivers than it needs"
    [ "$(tr -d '\0' < "device/$name/compute_80.ptx" | wc -c)" = "$(wc -c < "device/$name/compute_80.ptx")" ] || fail "a zero in the PTX of $name"
    [ -s "device/$name/sm_90.cubin" ] || fail "no cubin for $name"
  done
  "$program" show device/matmul_tiled --json | grep -q '_Z12matmul_tiledILi16EEvPKfS1_Pfi' || fail "no lowered name"
else
  echo "skipped: no CUDA toolkit, so no device code"
fi
echo passed
