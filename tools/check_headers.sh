#!/usr/bin/env bash
# Compiles every header under src/ alone: each must stand by itself. Usage: check_headers.sh [compiler]
# Compiled, not only parsed, so that ccache (where there is one) answers for headers that did not change.
set -euo pipefail
cd "$(dirname "$0")/.."
compiler="${1:-g++}"
launcher="$(command -v ccache || true)"
export compiler launcher
export CCACHE_DIR="${CCACHE_DIR:-$PWD/.cache/ccache}" CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
mkdir -p build/headers
python3 -B tools/generate_entry_points.py src/cuda_abi/driver_symbols.txt build/headers/entry_points.S \
  build/headers/entry_names.h
check() {
  local unit="build/headers/${1//\//_}.cc"
  echo "#include \"${1#src/}\"" >"$unit"
  $launcher "$compiler" -std=c++20 -O0 -Wall -Wextra -Werror -Wno-missing-field-initializers -Isrc -I. -Ikernels/include -Ibuild/headers \
    -c "$unit" -o "${unit%.cc}.o" || { echo "$1 does not compile alone" >&2; return 1; }
}
export -f check
failed=0
find src -name '*.h' -print0 | sort -z | xargs -0 -P "$(nproc)" -I{} bash -c 'check {}' || failed=1
[ "$failed" -eq 0 ] && echo "every header compiles alone"
exit "$failed"
