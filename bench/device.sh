#!/usr/bin/env bash
# The constants of the first CUDA device: of an emulated H200, or with EMULATED=no of the machine's own GPU.
set -euo pipefail
build="${LAMBENT_PREFIX:-build/release}"
if [ "${EMULATED:-yes}" != no ]; then
  folder="$(mktemp -d -t device_bench_XXXXXX)"
  trap 'rm -r "$folder"' EXIT
  export EMULATED_CUDA_LAUNCH_MODE=model LD_LIBRARY_PATH="$build/lib/emulated" EMULATED_CUDA_NODE="$folder/node" EMULATED_CUDA_CONFIG="${EMULATED_CUDA_CONFIG:-h200}"
fi
"$build/bin/device_bench" "$@"
