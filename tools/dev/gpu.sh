#!/usr/bin/env bash
# ./dev gpu [--out FOLDER] [--quick] [--minutes N] [--only 'STEP...'] [--suites 'NAME...'] [--emulated]: on this machine's NVIDIA GPU, what matters most
# first: the acceptance of the shim (tests/gpu; needs python3; half of the time at most), the constants of the first device, and the conformance suite
# against its driver, in N minutes (25). Writes result.json, log.txt and one report for each suite into FOLDER ($OUT, else ./gpu-result), and there what
# there was no time for. --only: of the acceptance these steps, and nothing else. Builds only what is missing.
# ./dev gpu --pack [FILE]: puts the programs, their libraries and this script into one archive (dist/lambent-gpu-tests.tar.gz), to be
# unpacked on a machine that has nothing but the driver and run there: lambent-gpu-tests/gpu.sh.
# --emulated runs the same against the emulated driver, whose times are modelled: it shows that the pack works, and says nothing of a GPU.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
suite_limit_s=300

say() { printf '== %s\n' "$*" >&2; }
die() { printf 'gpu: %s\n' "$*" >&2; exit 2; }

# Sets where things are: in a pack beside this script, in the repository in build/release.
find_programs() {
  if [ -x "$here/bin/conformance_test" ]; then
    conformance="$here/bin/conformance_test" bench="$here/bin/device_bench" emulated_library="$here/lib/emulated"
    data="$here/data" kernels="$here/data/occupy" prefix="$here" acceptance="$here/tests-gpu/acceptance.py"
    # For these programs alone: Python and what it loads bring their own.
    libraries="$here/lib"
    check_libc "$here/needs-glibc"
    return
  fi
  root="$(cd "$here/../.." && pwd)"
  cd "$root"
  local build="${LAMBENT_PREFIX:-$root/build/release}"
  conformance="$build/tests/conformance_test" bench="$build/bin/device_bench" emulated_library="$build/lib/emulated"
  libraries="" data="" kernels="$build/share/lambent/kernels/occupy" prefix="$build" acceptance="$root/tests/gpu/acceptance.py"
  if [ ! -x "$conformance" ] || [ ! -x "$bench" ] || [ ! -e "$kernels/manifest.json" ] || [ ! -e "$emulated_library/libcuda.so.1" ] ||
    [ ! -x "$build/bin/swap_bench" ] || [ ! -x "$build/bin/blas_bench" ] || [ ! -x "$build/bin/shim_bench" ] || [ ! -x "$build/bin/lambent-shim" ]; then
    [ "$build" = "$root/build/release" ] || die "$build lacks the conformance suite or the device bench: build them there"
    source tools/dev/common.sh
    build release conformance_test conformance_kernels device_bench kernel_bundles emulated_cuda_driver emulated_cuda_nvml \
      swap_bench shim_bench blas_bench cublas_double lambent-shim lambent_shim lambent_shim_nvml emulated-gpu >&2
  fi
}

# The pack brings every library but glibc, which must be as new as the one it was built with.
check_libc() {
  local needed has
  needed="$(cat "$1")"
  has="$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)"
  [ "$(printf '%s\n%s\n' "$needed" "$has" | sort -V | head -1)" = "$needed" ] ||
    die "these programs need glibc $needed, this machine has $has: unpack them on Debian 12, Ubuntu 24.04 or newer"
}

pack() {
  local archive="$1" target
  case "$archive" in /*) ;; *) archive="$PWD/$archive" ;; esac
  find_programs
  [ -z "$data" ] || die "this is a pack already"
  stage="$(mktemp -d)"
  trap 'rm -rf "$stage"' EXIT
  target="$stage/lambent-gpu-tests"
  mkdir -p "$target/bin" "$target/lib/emulated" "$target/data"
  cp "$here/gpu.sh" "$target/"
  install -s "$conformance" "$bench" "$target/bin/"
  install -s "$prefix/bin/blas_bench" "$prefix/bin/swap_bench" "$prefix/bin/shim_bench" "$prefix/bin/lambent-shim" "$prefix/bin/emulated-gpu" "$target/bin/"
  mkdir -p "$target/lib/shim" "$target/tests-gpu"
  cp "$prefix"/lib/shim/*.so "$prefix"/lib/shim/lambent-checkpoint "$target/lib/shim/"
  cp "$(dirname "$acceptance")"/*.py "$target/tests-gpu/"
  install -s "$emulated_library/libcuda.so.1" "$emulated_library/libnvidia-ml.so.1" "$target/lib/emulated/"
  cp -r "$emulated_library/presets" "$target/lib/emulated/"
  cp -r "$emulated_library/presets" "$target/data/presets"
  cp -r "$(dirname "$conformance")/conformance_kernels" "$target/data/kernels"
  cp "$(dirname "$conformance")/conformance_outdated_kernel.so" "$target/data/outdated_kernel.so"
  cp -r "$kernels" "$target/data/occupy"
  cp -r "$(dirname "$kernels")/blas" "$target/data/blas"
  # Everything that the programs load but what belongs to glibc and the driver, which must be the machine's own.
  ldd "$target"/bin/* "$target"/lib/emulated/*.so.1 | awk '/=> \// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*|libcuda|libnvidia-ml)\.so' |
    while read -r library; do cp -L "$library" "$target/lib/"; done
  objdump -T "$target"/bin/* "$target"/lib/*.so* "$target"/lib/emulated/*.so.1 "$target"/lib/shim/*.so |
    grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -1 >"$target/needs-glibc"
  mkdir -p "$(dirname "$archive")"
  tar -C "$stage" -czf "$archive" lambent-gpu-tests
  say "$archive ($(du -h "$archive" | cut -f1)), needs glibc $(cat "$target/needs-glibc") and an NVIDIA driver"
}

# The path of the driver that the loader takes.
driver_path() {
  local path
  path="$(ldconfig -p 2>/dev/null | awk '/libcuda\.so\.1 .*x86-64/ {print $NF; exit}')"
  for path in "$path" /usr/lib/x86_64-linux-gnu/libcuda.so.1 /usr/lib64/libcuda.so.1 /usr/local/nvidia/lib64/libcuda.so.1; do
    [ ! -e "$path" ] || { readlink -f "$path"; return; }
  done
  echo libcuda.so.1
}

# In JSON, between quotes.
quoted() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g')"; }
# The lines of standard input as a JSON list of texts.
list() {
  local separator='' line
  printf '['
  while read -r line; do printf '%s' "$separator"; quoted "$line"; separator=', '; done
  printf ']'
}
# count FILE WORD: the number that GoogleTest gives for WORD at the top of its report.
count() { sed -n "s/^  \"$2\": \([0-9]*\),*$/\1/p" "$1" | head -1; }

# One of our own programs, for at most so many seconds.
ours() {
  local limit="$1"
  shift
  timeout -k 10 "$limit" env ${libraries:+LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"} "$@" </dev/null
}

# The seconds that are left, but not more than so many.
left_of() {
  local left=$((deadline - SECONDS))
  [ "$left" -lt "$1" ] || left="$1"
  echo "$left"
}

all_suites() { ours 60 "$conformance" --gtest_list_tests | grep -v '^ ' | grep '\.$' | sed 's/\.$//'; }

# One process for each suite: one that crashes or hangs takes no other with it.
run_conformance() {
  local suites suite report status flags=(--driver="$1" --nvml="$2")
  [ -z "$data" ] || flags+=(--data="$data")
  suites="${wanted:-$(all_suites)}"
  mkdir -p "$out/conformance"
  : >"$out/ended.txt"
  : >"$out/no_time.txt"
  tests=0 failed=0 skipped=0
  for suite in $suites; do
    report="$out/conformance/$suite.json"
    rm -f "$report"
    status=0
    if [ "$(left_of 20)" -lt 20 ]; then
      echo "$suite" >>"$out/no_time.txt"
      continue
    fi
    ours "$(left_of "$suite_limit_s")" "$conformance" "${flags[@]}" --gtest_filter="$suite.*" --gtest_color=no --gtest_output="json:$report" \
      >"$out/conformance/$suite.txt" 2>&1 || status=$?
    cat "$out/conformance/$suite.txt" >>"$out/log.txt"
    if [ ! -s "$report" ]; then
      echo "$suite (status $status)" >>"$out/ended.txt"
      say "$suite: ended with status $status and no report"
      continue
    fi
    local failed_here skipped_here
    failed_here="$(count "$report" failures)"
    skipped_here="$(grep -c '^ *\[  SKIPPED \] [A-Za-z]*\.[A-Za-z]* (' "$out/conformance/$suite.txt" || true)"
    tests=$((tests + $(count "$report" tests))) failed=$((failed + failed_here)) skipped=$((skipped + skipped_here))
    say "$suite: $(count "$report" tests) cases, $failed_here failed, $skipped_here skipped"
  done
}

run() {
  find_programs
  deadline=$((SECONDS + minutes * 60))
  local suite known
  known="$(all_suites)"
  for suite in $wanted; do
    grep -qxF "$suite" <<<"$known" || die "there is no suite '$suite'; there are: $(tr '\n' ' ' <<<"$known")"
  done
  local driver=libcuda.so.1 nvml=libnvidia-ml.so.1
  mkdir -p "$out"
  out="$(cd "$out" && pwd)"
  : >"$out/log.txt"
  if [ "$emulated" = yes ]; then
    scratch="$(mktemp -d -t gpu_tests_XXXXXX)"
    trap 'rm -rf "$scratch"' EXIT
    driver="$emulated_library/libcuda.so.1" nvml="$emulated_library/libnvidia-ml.so.1"
    export LD_LIBRARY_PATH="$emulated_library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export EMULATED_CUDA_NODE="$scratch/node" EMULATED_CUDA_CONFIG="${EMULATED_CUDA_CONFIG:-tiny}" EMULATED_CUDA_LOG="$scratch/refusals"
  fi
  { uname -a; nvidia-smi 2>&1 || true; } >>"$out/log.txt"
  say "acceptance of the shim"
  local acceptance_status=0 ways=(--minutes "$((minutes / 2 > 0 ? minutes / 2 : 1))")
  [ -z "$only" ] || ways=(--minutes "$minutes" --only $only)
  [ "$quick" = no ] || ways+=(--ways moved touched)
  [ -z "$libraries" ] || ways+=(--libraries "$libraries")
  if [ "$emulated" = yes ]; then ways+=(--emulated); else ways+=(--driver "$(driver_path)"); fi
  rm -f "$out/acceptance.json"
  if command -v python3 >/dev/null; then
    python3 -B "$acceptance" --prefix "$prefix" "${ways[@]}" --out "$out/acceptance.json" 2>&1 |
      tee "$out/acceptance.txt" >&2 || acceptance_status=$?
    cat "$out/acceptance.txt" >>"$out/log.txt"
  else
    say "no python3: the acceptance was not run"
  fi

  if [ -n "$only" ]; then
    say "$out/acceptance.json"
    return "$acceptance_status"
  fi

  say "device bench"
  local bench_status=0 flags=(--image "$kernels/host-x86_64.so" --image "$kernels/sm_90.cubin" --image "$kernels/compute_80.ptx")
  [ "$quick" = no ] || flags=(--quick "${flags[@]}")
  # The constants of an emulated device are told with modelled time alone, by a node of their own.
  local bare=("$bench") constants=null
  [ "$emulated" = no ] || bare=(env EMULATED_CUDA_NODE="$scratch/bench" EMULATED_CUDA_LAUNCH_MODE=model EMULATED_CUDA_CONFIG=h200 "$bench")
  if [ "$(left_of 20)" -lt 20 ]; then
    bench_status=124
  else
    ours "$(left_of "$suite_limit_s")" "${bare[@]}" "${flags[@]}" >"$out/device.txt" 2>>"$out/log.txt" || bench_status=$?
    cat "$out/device.txt" >>"$out/log.txt"
    [ "$bench_status" -ne 0 ] || constants="$(tail -1 "$out/device.txt")"
  fi

  say "conformance"
  run_conformance "$driver" "$nvml"
  [ "$tests" -gt 0 ] || { tail -5 "$out/log.txt" >&2; say "no suite could run: is there an NVIDIA driver? The log is $out/log.txt"; }

  {
    printf '{"name": "gpu", "emulated": %s,\n' "$([ "$emulated" = yes ] && echo true || echo false)"
    [ "$emulated" = no ] || printf ' "note": "an emulated driver: every time is modelled, none is of a GPU",\n'
    printf ' "conformance": {"cases": %d, "failed": %d, "skipped": %d,\n' "$tests" "$failed" "$skipped"
    printf '  "failures": %s,\n' "$(grep -h '^\[  FAILED  \] .* (.* ms)$' "$out"/conformance/*.txt | sed 's/^\[  FAILED  \] //; s/ (.*//' | list)"
    printf '  "skips": %s,\n' "$(awk '/^\[ RUN      \] /{name = $4} /: Skipped$/{getline reason; print name ": " reason}' "$out"/conformance/*.txt | list)"
    printf '  "suites_without_time": %s,\n' "$(list <"$out/no_time.txt")"
    printf '  "suites_without_report": %s},\n' "$(list <"$out/ended.txt")"
    printf ' "acceptance": %s,\n' "$(cat "$out/acceptance.json" 2>/dev/null || echo null)"
    printf ' "device": %s}\n' "$constants"
  } >"$out/result.json"
  say "$tests cases, $failed failed, $skipped skipped, $(wc -l <"$out/ended.txt") suites without a report, $(wc -l <"$out/no_time.txt") without time; $out/result.json"
  [ "$tests" -gt 0 ] && [ "$failed" -eq 0 ] && [ ! -s "$out/ended.txt" ] && [ "$bench_status" -eq 0 ] && [ "$acceptance_status" -eq 0 ]
}

out="${OUT:-gpu-result}" quick=no emulated=no archive='' wanted='' only='' minutes=25
while [ $# -gt 0 ]; do
  case "$1" in
    --out) out="${2:?--out needs a folder}"; shift 2 ;;
    --quick) quick=yes; shift ;;
    --minutes) minutes="${2:?--minutes needs a number}"; shift 2 ;;
    --only) only="${2:?--only needs steps of the acceptance, as in 'swap torch_steps'}"; shift 2 ;;
    --emulated) emulated=yes; shift ;;
    --suites) wanted="${2:?--suites needs names, as in 'Devices Memory'}"; shift 2 ;;
    --pack)
      archive=dist/lambent-gpu-tests.tar.gz; shift
      if [ $# -gt 0 ]; then archive="$1"; shift; fi ;;
    *) die "unknown argument '$1'; the beginning of $0 says what there is" ;;
  esac
done
case "$out" in /*) ;; *) out="$PWD/$out" ;; esac
if [ -n "$archive" ]; then pack "$archive"; else run; fi
