#!/usr/bin/env bash
# The conformance suite against a driver, as a step of tools/dev/gpu.sh, which sets CONFORMANCE, DRIVER, NVML, DATA, LIBRARIES, OUT, SUITES and
# LIMIT_S: one process for each suite, so that one that crashes or hangs takes no other with it. Its last line is a JSON object.
set -uo pipefail
suite_limit_s=300
end=$((SECONDS + LIMIT_S - 5))

ours() {
  local limit="$1"
  shift
  timeout -k 5 "$limit" env ${LIBRARIES:+LD_LIBRARY_PATH="$LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"} "$@" </dev/null
}
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

folder="$OUT/conformance"
rm -rf "$folder"
mkdir -p "$folder"
: >"$folder/ended"
: >"$folder/no_time"
flags=(--driver="$DRIVER" --nvml="$NVML")
[ -z "$DATA" ] || flags+=(--data="$DATA")
suites="${SUITES:-$(ours 60 "$CONFORMANCE" --gtest_list_tests | grep -v '^ ' | grep '\.$' | sed 's/\.$//')}"
cases=0 failed=0 skipped=0
for suite in $suites; do
  left=$((end - SECONDS))
  if [ "$left" -lt 2 ]; then
    echo "$suite" >>"$folder/no_time"
    continue
  fi
  [ "$left" -lt "$suite_limit_s" ] || left="$suite_limit_s"
  status=0
  ours "$left" "$CONFORMANCE" "${flags[@]}" --gtest_filter="$suite.*" --gtest_color=no --gtest_output="json:$folder/$suite.json" \
    >"$folder/$suite.txt" 2>&1 || status=$?
  cat "$folder/$suite.txt"
  if [ ! -s "$folder/$suite.json" ]; then
    echo "$suite (status $status)" >>"$folder/ended"
    echo "$suite: ended with status $status and no report" >&2
    continue
  fi
  cases=$((cases + $(count "$folder/$suite.json" tests)))
  failed=$((failed + $(count "$folder/$suite.json" failures)))
  skipped=$((skipped + $(grep -c '^ *\[  SKIPPED \] [A-Za-z]*\.[A-Za-z]* (' "$folder/$suite.txt" || true)))
done
printf '{"cases": %d, "failed": %d, "skipped": %d, "failures": %s, "skips": %s, "suites_without_time": %s, "suites_without_report": %s}\n' \
  "$cases" "$failed" "$skipped" \
  "$(cat "$folder"/*.txt 2>/dev/null | grep -h '^\[  FAILED  \] .* (.* ms)$' | sed 's/^\[  FAILED  \] //; s/ (.*//' | list)" \
  "$(awk '/^\[ RUN      \] /{name = $4} /: Skipped$/{getline reason; print name ": " reason}' "$folder"/*.txt 2>/dev/null | list)" \
  "$(list <"$folder/no_time")" "$(list <"$folder/ended")"
[ "$cases" -gt 0 ] || { echo "no suite could run: is there an NVIDIA driver?" >&2; exit 1; }
[ ! -s "$folder/ended" ] || { echo "suites ended without a report: $(tr '\n' ' ' <"$folder/ended")" >&2; exit 1; }
[ "$failed" -eq 0 ] || { echo "$failed of $cases cases failed" >&2; exit 1; }
[ ! -s "$folder/no_time" ] || { echo "no time was left for: $(tr '\n' ' ' <"$folder/no_time")" >&2; exit 1; }
