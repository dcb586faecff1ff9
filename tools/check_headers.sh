#!/usr/bin/env bash
# Every header under src/ must stand by itself. Usage: check_headers.sh [compiler]
# A header that the source beside it (x.cc or x_test.cc) includes before all else is proven by the build; the others are compiled
# here, alone, and not only parsed, so that ccache (where there is one) answers for those that did not change.
set -euo pipefail
cd "$(dirname "$0")/.."
compiler="${1:-g++}"
launcher="$(command -v ccache || true)"
export compiler launcher
export CCACHE_DIR="${CCACHE_DIR:-$PWD/.cache/ccache}" CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
mkdir -p build/headers
python3 -B tools/generate_entry_points.py src/gpu/cuda_abi/driver_symbols.txt build/headers/entry_points.S \
  build/headers/entry_names.h
check() {
  local unit="build/headers/${1//\//_}.cc"
  echo "#include \"${1#src/}\"" >"$unit"
  $launcher "$compiler" -std=c++20 -O0 -Wall -Wextra -Werror -Wno-missing-field-initializers -Isrc -I. -Ikernels/include -Ibuild/headers \
    "-DLAMBENT_SOURCE_DIR=\"$PWD\"" "-DLAMBENT_BINARY_DIR=\"$PWD/build/release\"" -c "$unit" -o "${unit%.cc}.o" || { echo "$1 does not compile alone" >&2; return 1; }
}
export -f check
# Whether the build compiles header $1 as the first thing of a translation unit.
proven() {
  local source
  for source in "${1%.h}.cc" "${1%.h}_test.cc"; do
    [ -f "$source" ] && [ "$(grep -m1 '^#include' "$source")" = "#include \"${1#src/}\"" ] && return 0
  done
  return 1
}
failed=0
mapfile -t headers < <(find src -name '*.h' | sort)
alone=()
for header in "${headers[@]}"; do proven "$header" || alone+=("$header"); done
printf '%s\0' "${alone[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'check {}' || failed=1
[ "$failed" -eq 0 ] && echo "every header compiles alone: ${#alone[@]} here, $((${#headers[@]} - ${#alone[@]})) in the build"
exit "$failed"
