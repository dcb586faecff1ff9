#!/usr/bin/env bash
# ./dev bench [NAME] [--quick] [--out FILE] [--traces DIR]: runs a benchmark of the optimised build. Its last line is one JSON
# object; --out keeps that line in a file. Without NAME, the list.
source "$(dirname "$0")/common.sh"

list() {
  echo "Benchmarks (docs/benchmarks.md says what each figure means):"
  sed -n "s/^\([a-z-]*\) *: \([^|]*\)|.*/  \1\t\2/p" bench/benchmarks.txt | expand -t 14
}

name="${1:-}"
[ -z "$name" ] && { list; exit 0; }
shift
command="$(sed -n "s/^$name *: [^|]*| *//p" bench/benchmarks.txt)"
[ -n "$command" ] || { list >&2; die "no benchmark is called '$name'"; }

out=''
flags=()
while [ $# -gt 0 ]; do
  case "$1" in
    --out) out="${2:?--out needs a file}"; shift 2 ;;
    --traces)
      # These read traces; the others take their usual work.
      case "$name" in
        replay | fidelity | paper-streambox | paper-fluidfaas) flags+=(--traces "$(realpath "${2:?--traces needs a folder}")") ;;
      esac
      shift 2 ;;
    *) flags+=("$1"); shift ;;
  esac
done

build release >&2
export LAMBENT_PREFIX="$root/build/release"
output="$(mktemp)"
trap 'rm -f "$output"' EXIT
$command ${flags[@]+"${flags[@]}"} | tee "$output"
[ "${PIPESTATUS[0]}" -eq 0 ] || die "the benchmark failed"
tail -1 "$output" | python3 -c 'import json, sys; json.load(sys.stdin)' || die "the last line is no JSON object"
[ -z "$out" ] || tail -1 "$output" >"$out"
