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

# A library of kernels that is compiled already: PTX, which needs no toolkit.
cat >twice.ptx <<'PTX'
.version 7.0
.target sm_70
.address_size 64
.visible .entry _Z5twicePfj(.param .u64 x, .param .u32 count) {
  .reg .pred %p<2>; .reg .f32 %f<3>; .reg .b32 %r<6>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [x];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra done;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%rd4], %f2;
done:
  ret;
}
PTX
expect 0 "kernel _Z5twicePfj = twice(float*, unsigned int): 2 parameters (bytes: 8 4)" "$program" build twice.ptx -o twice
expect 0 '"target": "compute_70"' "$program" show twice --json
tail -n +2 twice/compute_70.ptx | cmp - twice.ptx || fail "the PTX of a library was changed"
expect 0 "host-x86_64.so" "$program" build twice.ptx -o hosted --host-only
[ ! -e hosted/compute_70.ptx ] || fail "--host-only with a device image"
sed 's/\.entry/.func/; s/\.param \.u64 x, \.param \.u32 count/.param .b64 x, .param .b32 count/' twice.ptx >functions.ptx
expect 13 "has no kernels" "$program" build functions.ptx -o functions
echo 'no PTX' >words.ptx
expect 13 "words.ptx is no PTX" "$program" build words.ptx -o words
sed 's/add.f32 /tcgen05.mma /' twice.ptx >later.ptx
expect 22 "tcgen05" "$program" build later.ptx -o later

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
    # Reductions of warps by an instruction are an A100's.
    [ "$name" = warps ] || grep -q "^.target sm_75" "device/$name/compute_75.ptx" || fail "no PTX of $name for a T4"
  done
  printf '#include <lambent/kernel.h>\nextern "C" __global__ void k(int* p) { *p = __reduce_add_sync(~0u, 1); }\nLAMBENT_KERNEL(k);\n' >ampere.cu
  expect 0 "compute_80.ptx" "$program" build ampere.cu -o ampere
  [ ! -e ampere/compute_75.ptx ] || fail "PTX for a T4, which has no __reduce_add_sync"
  "$program" show device/matmul_tiled --json | grep -q '_Z12matmul_tiledILi16EEvPKfS1_Pfi' || fail "no lowered name"
else
  echo "skipped: no CUDA toolkit, so no device code"
fi
echo passed
