#!/usr/bin/env bash
# Compiles every header under src/ alone: each must stand by itself. Usage: check_headers.sh [compiler]
set -euo pipefail
cd "$(dirname "$0")/.."
compiler="${1:-g++}"
export compiler
failed=0
check() {
  echo "#include \"${1#src/}\"" |
    "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -Isrc -I. -Ikernels/include -x c++ - ||
    { echo "$1 does not compile alone" >&2; return 1; }
}
export -f check
find src -name '*.h' -print0 | sort -z | xargs -0 -P "$(nproc)" -I{} bash -c 'check {}' || failed=1
[ "$failed" -eq 0 ] && echo "every header compiles alone"
exit "$failed"
