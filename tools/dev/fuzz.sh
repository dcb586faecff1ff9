#!/usr/bin/env bash
# ./dev fuzz [NAME] [SECONDS]: runs one fuzz target, or all, for so many seconds each (20); what breaks it is left in
# build/fuzz/found. Targets: tests/fuzz/targets.cmake.
source "$(dirname "$0")/common.sh"
mapfile -t names < <(sed -n 's/^fuzz_target(\([a-z_]*\).*/\1/p' tests/fuzz/targets.cmake)
if [[ "${1:-}" =~ ^[0-9]+$ ]]; then set -- all "$1"; fi
seconds="${2:-20}"
if [ "${1:-all}" != all ]; then
  [[ " ${names[*]} " == *" $1 "* ]] || die "no such target: $1; there are: ${names[*]}"
  names=("$1")
fi

build fuzz "${names[@]/%/_fuzz}"
mkdir -p build/fuzz/found
failed=()
for name in "${names[@]}"; do
  say "$name"
  corpus="$(mktemp -d)"
  "build/fuzz/fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="build/fuzz/found/$name-" "$corpus" "tests/fuzz/corpus/$name" || failed+=("$name")
  rm -rf "$corpus"
done
[ ${#failed[@]} -eq 0 ] || die "broken: ${failed[*]}; the inputs are in build/fuzz/found"
say "every target held"
