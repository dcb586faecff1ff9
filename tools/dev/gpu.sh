#!/usr/bin/env bash
# ./dev gpu [--out FOLDER] [--quick] [--minutes N] [--only 'STEP...'] [--suites 'NAME...'] [--emulated]: the first hour on this machine's NVIDIA
# GPU, what matters most first: what the machine has, the shim under programs and libraries, moves of memory, the driver's checkpoint, green
# contexts, MPS, two processes by turns, the constants of the device, a worker's calibration, the conformance suite. Each step is a process of
# its own with a limit, and all end within N minutes (55): one that fails, crashes or hangs is told, and the rest goes on. Writes result.json,
# which `lambent report` makes a table of, and log.txt into FOLDER ($OUT, else ./gpu-result). --only: these steps. Builds only what is missing.
# ./dev gpu --pack [FILE]: puts the programs, their libraries and this script into one archive (dist/lambent-gpu-tests.tar.gz), to be
# unpacked on a machine that has nothing but the driver and run there: lambent-gpu-tests/gpu.sh. Steps in Python are left out where there is none.
# --emulated runs the same against the emulated driver, whose times are modelled: it shows that the pack works, and says nothing of a GPU.
# --break 'STEP=KIND ...' rehearses trouble: fail, crash and hang stand in for the step's program; driver and stuck run it over an emulated driver
# of which every start fails, or never ends.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

programs="lambent lambent-worker lambent-launcher lambent-device lambent-executor lambent-bundle lambent-shim emulated-gpu device_bench swap_bench shim_bench blas_bench"

say() { printf '== %s\n' "$*" >&2; }
die() { printf 'gpu: %s\n' "$*" >&2; exit 2; }

# Sets where things are: in a pack beside this script, in the repository in build/release.
find_programs() {
  if [ -x "$here/bin/conformance_test" ]; then
    prefix="$here" conformance="$here/bin/conformance_test" emulated_library="$here/lib/emulated"
    data="$here/data" kernels="$here/data/occupy" tests="$here/tests-gpu" paper_function="$here/examples/06_paper_function"
    # For these programs alone: Python and what it loads bring their own.
    libraries="$here/lib"
    check_libc "$here/needs-glibc"
    return
  fi
  root="$(cd "$here/../.." && pwd)"
  cd "$root"
  prefix="${LAMBENT_PREFIX:-$root/build/release}"
  conformance="$prefix/tests/conformance_test" emulated_library="$prefix/lib/emulated"
  libraries="" data="" kernels="$prefix/share/lambent/kernels/occupy" tests="$root/tests/gpu" paper_function="$prefix/examples/06_paper_function"
  local program missing=no
  for program in $programs; do [ -x "$prefix/bin/$program" ] || missing=yes; done
  if [ $missing = yes ] || [ ! -x "$conformance" ] || [ ! -e "$kernels/manifest.json" ] || [ ! -e "$emulated_library/libcuda.so.1" ] ||
    [ ! -x "$paper_function/bootstrap" ]; then
    [ "$prefix" = "$root/build/release" ] || die "$prefix lacks programs that are needed: build the product, the benches and conformance_test there"
    source tools/dev/common.sh
    build release product conformance_test conformance_kernels device_bench kernel_bundles swap_bench shim_bench blas_bench cublas_double >&2
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
  local archive="$1" target program
  case "$archive" in /*) ;; *) archive="$PWD/$archive" ;; esac
  find_programs
  [ -z "$data" ] || die "this is a pack already"
  stage="$(mktemp -d)"
  trap 'rm -rf "$stage"' EXIT
  target="$stage/lambent-gpu-tests"
  mkdir -p "$target/bin" "$target/lib/emulated" "$target/lib/forward" "$target/lib/shim" "$target/lib/testing" "$target/tests-gpu" "$target/data" "$target/examples/06_paper_function"
  cp "$here/gpu.sh" "$target/"
  cp "$tests"/*.py "$tests"/*.sh "$target/tests-gpu/"
  install -s "$conformance" "$target/bin/"
  for program in $programs; do install -s "$prefix/bin/$program" "$target/bin/"; done
  install -s "$prefix"/lib/shim/*.so "$prefix/lib/shim/lambent-checkpoint" "$target/lib/shim/"
  install -s "$prefix/lib/forward/libcuda.so.1" "$target/lib/forward/"
  install -s "$prefix/lib/testing/libcublas_double.so" "$target/lib/testing/"
  cp "$prefix/lib/testing/column_major.so" "$target/lib/testing/"
  install -s "$emulated_library/libcuda.so.1" "$emulated_library/libnvidia-ml.so.1" "$target/lib/emulated/"
  cp -r "$emulated_library/presets" "$target/lib/emulated/"
  cp -r "$emulated_library/presets" "$target/data/presets"
  cp -r "$(dirname "$conformance")/conformance_kernels" "$target/data/kernels"
  cp "$(dirname "$conformance")/conformance_outdated_kernel.so" "$target/data/outdated_kernel.so"
  cp -r "$kernels" "$target/data/occupy"
  cp -r "$(dirname "$kernels")/blas" "$target/data/blas"
  # What a worker has beside it, and the function that a calibration runs.
  mkdir -p "$target/share/lambent/kernels"
  cp -r "$kernels" "$target/share/lambent/kernels/occupy"
  cp -r "$prefix/share/lambent/include" "$target/share/lambent/include"  # for PTX that a program makes
  install -s "$paper_function/bootstrap" "$target/examples/06_paper_function/"
  cp "$paper_function/lambent.toml" "$target/examples/06_paper_function/"
  # Everything that the programs load but what belongs to glibc and the driver, which must be the machine's own.
  ldd "$target"/bin/* "$target"/lib/emulated/*.so.1 | awk '/=> \// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*|libcuda|libnvidia-ml)\.so' |
    while read -r library; do cp -L "$library" "$target/lib/"; done
  objdump -T "$target"/bin/* "$target"/lib/*.so* "$target"/lib/emulated/*.so.1 "$target"/lib/shim/*.so "$target/examples/06_paper_function/bootstrap" |
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

# The seconds that are left, but not more than so many.
left_of() {
  local left=$((deadline - SECONDS))
  [ "$left" -lt "$1" ] || left="$1"
  echo "$left"
}

# The steps, what matters most first: who has little time gets that. Beside each the seconds that it may take.
steps="machine:60 doctor:60 driver_memory:240 swap:180 torch_steps:600 cublas_gemm:300 onnx_session:300 llm_generate:600 shim:120 checkpoint:120
  green_contexts:120 mps:180 contention:180 blas:180 device:300 calibrate:300 conformance:1500"
step_names() { for step in $steps; do printf '%s ' "${step%%:*}"; done; }

# Our own programs find the libraries of a pack; others do not.
with_libraries() { command=(env ${libraries:+LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"} "$@"); }

# Sets `command`: what runs a step. Its last line is a JSON object, and 77 says that it cannot be run here; its last word on standard error is why.
command_of() {
  local name="$1" limit="$2" quickly=()
  [ "$quick" = no ] || quickly=(--quick)
  case "$name" in
    doctor) with_libraries bash -c '"$0" doctor | grep "^bad" >&2; "$0" doctor --json | tr "\n" " "; exit "${PIPESTATUS[0]}"' "$prefix/bin/lambent" ;;
    mps)
      command=(python3 -B "$tests/mps_probe.py")
      # An emulated node has MPS without a daemon.
      [ "$emulated" = no ] || with_libraries bash -c '"$0" create --node "$EMULATED_CUDA_NODE" --config "$EMULATED_CUDA_CONFIG" >/dev/null &&
        "$0" mps --node "$EMULATED_CUDA_NODE" on >/dev/null && exec "$@"' "$prefix/bin/emulated-gpu" "${command[@]}" --no-daemon
      ;;
    swap) with_libraries "$prefix/bin/swap_bench" --quick $([ "$emulated" = yes ] || printf -- '--real %s' "$driver") ;;
    shim) with_libraries "$prefix/bin/shim_bench" --quick --driver "$driver" --shim "$prefix/lib/shim/liblambent_shim.so" ;;
    device)
      # The constants of an emulated device are told with modelled time alone, by a node of their own.
      with_libraries "$prefix/bin/device_bench" "${quickly[@]}" --image "$kernels/host-x86_64.so" --image "$kernels/sm_90.cubin" --image "$kernels/compute_80.ptx"
      [ "$emulated" = no ] || command=(env EMULATED_CUDA_NODE="$scratch/device" EMULATED_CUDA_LAUNCH_MODE=model EMULATED_CUDA_CONFIG=h200 "${command[@]}")
      ;;
    calibrate | conformance)
      command=(env PREFIX="$prefix" LIBRARIES="$libraries" DATA="$data" CONFORMANCE="$conformance" DRIVER="$driver" NVML="$nvml" OUT="$out" QUICK="$quick"
        EMULATED="$emulated" PAPER_FUNCTION="$paper_function" SUITES="$wanted" LIMIT_S="$limit" bash "$tests/$name.sh") ;;
    machine) command=(python3 -B "$tests/machine.py" "$driver") ;;
    checkpoint | green_contexts | contention) command=(python3 -B "$tests/${name}_probe.py") ;;
    *)
      command=(python3 -B "$tests/acceptance.py" --prefix "$prefix" --step "$name" --seconds "$limit" --driver "$driver")
      [ "$quick" = no ] || command+=(--ways moved touched)
      [ -z "$libraries" ] || command+=(--libraries "$libraries")
      [ "$emulated" = no ] || command+=(--emulated) ;;
  esac
}

# Changes `command` into trouble of that kind.
break_step() {
  case "$1" in
    fail) command=(bash -c 'echo "made to fail (--break)" >&2; exit 1') ;;
    crash) command=(bash -c 'echo "made to crash (--break)" >&2; kill -SEGV $$') ;;
    hang) command=(bash -c 'trap "" TERM; sleep 3600 & setsid sleep 3600 & echo "made to hang (--break)" >&2; wait; sleep 3600') ;;
    driver) command=(env EMULATED_CUDA_FAULTS='fail cuInit from 1 with CUDA_ERROR_UNKNOWN' "${command[@]}") ;;
    stuck) command=(env EMULATED_CUDA_FAULTS='delay cuInit from 1 by 3600s' "${command[@]}") ;;
  esac
}

# Whatever a step has started and left, in whatever session: it carries the step's mark.
end_leftovers() {
  local environment process
  for environment in $(grep -lszF "LAMBENT_GPU_STEP=$1" /proc/[0-9]*/environ 2>/dev/null || true); do
    process="${environment#/proc/}"
    process="${process%/environ}"
    [ "$process" = "$$" ] || [ "$process" = "$BASHPID" ] || kill -KILL "$process" 2>/dev/null || true
  done
}

# How a step ended, in a word, by its exit status.
outcome_of() {
  case "$1" in
    0) echo ok ;;
    77) echo not-checked ;;
    124 | 137) echo hung ;;
    *) if [ "$1" -gt 128 ]; then echo crashed; else echo failed; fi ;;
  esac
}

run_step() {
  local name="$1" limit="$2" kind mark status=0 began outcome reason last files="$out/steps/$1"
  command=()
  limit="$(left_of "$limit")"
  command_of "$name" "$limit"
  for kind in $broken; do
    [ "${kind%%=*}" != "$name" ] || { break_step "${kind#*=}"; limit="$(left_of "$broken_limit_s")"; }
  done
  if [ "$limit" -lt 3 ]; then
    write_step "$name" no-time 0 "$limit" 0 "the minutes were over (--minutes)" ''
    return
  fi
  say "$name (at most $limit s)"
  began=$SECONDS mark="$$.$name"
  if [[ " ${command[*]} " == *" python3 "* ]] && ! command -v python3 >/dev/null; then
    status=77
    : >"$files.out"
    echo "there is no python3" >"$files.err"
  else
    LAMBENT_GPU_STEP="$mark" timeout -k 3 "$limit" "${command[@]}" </dev/null >"$files.out" 2>"$files.err" || status=$?
    end_leftovers "$mark"
  fi
  { echo "== $name: status $status"; cat "$files.out" "$files.err"; } >>"$out/log.txt"
  last="$(tail -n 1 "$files.out" | sed 's/ *$//')"
  case "$last" in '{'*'}') ;; *) last='' ;; esac
  outcome="$(outcome_of "$status")"
  reason=''
  [ "$outcome" = ok ] || reason="$(grep -v '^ *$' "$files.err" | tail -n 1 || true)"
  [ "$outcome" != hung ] || reason="not over after $limit s${reason:+; its last word: $reason}"
  write_step "$name" "$outcome" $((SECONDS - began)) "$limit" "$status" "$reason" "$last"
}

# A step's row, and the result so far: a run that is cut off leaves what it had.
write_step() {
  local name="$1"
  {
    printf '  {"name": "%s", "outcome": "%s", "seconds": %d, "limit_s": %d, "status": %d' "$name" "$2" "$3" "$4" "$5"
    [ -z "$6" ] || printf ', "reason": %s' "$(quoted "${6:0:400}")"
    [ -z "$7" ] || printf ', "result": %s' "$7"
    printf '}'
  } >"$out/steps/$name.json"
  outcomes="$outcomes $2"
  say "$name: $2${6:+: $6}"
  write_result false
}

write_result() {
  local step separator=''
  {
    printf '{"name": "gpu", "emulated": %s, "complete": %s,\n' "$([ "$emulated" = yes ] && echo true || echo false)" "$1"
    [ "$emulated" = no ] || printf ' "note": "an emulated driver: every time is modelled, none is of a GPU",\n'
    printf ' "steps": ['
    for step in $(step_names); do
      [ -s "$out/steps/$step.json" ] || continue
      printf '%s\n' "$separator"
      cat "$out/steps/$step.json"
      separator=','
    done
    printf '\n ]}\n'
  } >"$out/result.json.new"
  mv "$out/result.json.new" "$out/result.json"
}

# Words of --only, --break and --suites that name nothing end the run before it begins.
check_words() {
  local word known
  known=" $(step_names)"
  for word in $only $broken; do
    case "$known" in *" ${word%%=*} "*) ;; *) die "there is no step '${word%%=*}'; there are:$known" ;; esac
    case "$word" in
      *=fail | *=crash | *=hang) ;;
      *=driver | *=stuck) [ "$emulated" = yes ] || die "--break $word is for --emulated" ;;
      *=*) die "--break knows fail, crash, hang, driver and stuck, not '${word#*=}'" ;;
    esac
  done
  [ -z "$wanted" ] || check_suites
}

check_suites() {
  local suite known
  with_libraries "$conformance" --gtest_list_tests
  known="$(timeout 60 "${command[@]}" | grep -v '^ ' | grep '\.$' | sed 's/\.$//')" || true
  for suite in $wanted; do
    grep -qxF "$suite" <<<"$known" || die "there is no suite '$suite'; there are: $(tr '\n' ' ' <<<"$known")"
  done
}

run() {
  find_programs
  deadline=$((SECONDS + minutes * 60))
  local step name
  check_words
  driver=libcuda.so.1 nvml=libnvidia-ml.so.1 outcomes=''
  mkdir -p "$out"
  out="$(cd "$out" && pwd)"
  rm -rf "$out/steps"
  mkdir -p "$out/steps"
  : >"$out/log.txt"
  scratch="$(mktemp -d -t gpu_tests_XXXXXX)"
  trap 'rm -rf "$scratch"' EXIT
  if [ "$emulated" = yes ]; then
    driver="$emulated_library/libcuda.so.1" nvml="$emulated_library/libnvidia-ml.so.1"
    export LD_LIBRARY_PATH="$emulated_library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export EMULATED_CUDA_LOG="$scratch/refusals"
  else
    driver="$(driver_path)"
  fi
  { uname -a; nvidia-smi 2>&1 || true; } >>"$out/log.txt"
  write_result false
  for step in $steps; do
    name="${step%%:*}"
    case " ${only:-$(step_names)} " in *" $name "*) ;; *) continue ;; esac
    # A node of its own for each, so that none finds what another has left.
    [ "$emulated" = no ] || export EMULATED_CUDA_NODE="$scratch/$name.node" EMULATED_CUDA_CONFIG="${preset:-tiny}"
    run_step "$name" "${step#*:}"
  done
  write_result true
  say "$(for name in ok not-checked failed crashed hung no-time; do
    printf '%s %s, ' "$(tr ' ' '\n' <<<"$outcomes" | grep -cx "$name" || true)" "$name"
  done)$out/result.json"
  case "$outcomes" in *failed* | *crashed* | *hung* | *no-time*) return 1 ;; esac
  case "$outcomes" in *ok*) ;; *) return 1 ;; esac
}

out="${OUT:-gpu-result}" quick=no emulated=no archive='' wanted='' only='' broken='' minutes=55
broken_limit_s="${LAMBENT_GPU_BROKEN_LIMIT_S:-30}"
preset="${EMULATED_CUDA_CONFIG:-}"
while [ $# -gt 0 ]; do
  case "$1" in
    --out) out="${2:?--out needs a folder}"; shift 2 ;;
    --quick) quick=yes; shift ;;
    --minutes) minutes="${2:?--minutes needs a number}"; shift 2 ;;
    --only) only="${2:?--only needs steps, as in 'swap torch_steps'}"; shift 2 ;;
    --break) broken="${2:?--break needs steps and kinds, as in 'swap=hang shim=fail'}"; shift 2 ;;
    --emulated) emulated=yes; shift ;;
    --suites) wanted="${2:?--suites needs names, as in 'Devices Memory'}"; shift 2 ;;
    --pack)
      archive=dist/lambent-gpu-tests.tar.gz; shift
      if [ $# -gt 0 ]; then archive="$1"; shift; fi ;;
    *) die "unknown argument '$1'; the beginning of $0 says what there is" ;;
  esac
done
case "$minutes" in '' | *[!0-9]*) die "--minutes needs a whole number, not '$minutes'" ;; esac
case "$out" in /*) ;; *) out="$PWD/$out" ;; esac
if [ -n "$archive" ]; then pack "$archive"; else run; fi
