#!/usr/bin/env bash
# ./dev bench [NAME] [--quick] [--out FILE] [--traces DIR] [--fresh SEED]: runs a benchmark of the optimised build. Its last line is
# one JSON object; --out keeps that line in a file. Without NAME, the list. --fresh (the simulated paper-* alone): inputs drawn from DIR by
# that seed (bench/draw_inputs.py), on which nothing was chosen. With --sweep (of some paper-*) it prints a table alone.
source "$(dirname "$0")/common.sh"

list() {
  echo "Benchmarks (docs/internals/benchmarks.md says what each figure means):"
  sed -n "s/^\([a-z-]*\) *: \([^|]*\)|.*/  \1\t\2/p" bench/benchmarks.txt | expand -t 14
}

name="${1:-}"
[ -z "$name" ] && { list; exit 0; }
shift
command="$(sed -n "s/^$name *: [^|]*| *//p" bench/benchmarks.txt)"
[ -n "$command" ] || { list >&2; die "no benchmark is called '$name'"; }

out=''
traces=''
fresh=''
table=''
flags=()
while [ $# -gt 0 ]; do
  case "$1" in
    --out) out="${2:?--out needs a file}"; shift 2 ;;
    --traces) traces="$(realpath "${2:?--traces needs a folder}")"; shift 2 ;;
    --sweep) table=yes; flags+=("$1"); shift ;;
    --fresh) fresh="${2:?--fresh needs a seed}"; shift 2 ;;
    *) flags+=("$1"); shift ;;
  esac
done

[ -z "$table" ] || [ -z "$out" ] || die "--sweep prints a table, which --out does not keep: redirect it"

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
if [ -n "$fresh" ]; then
  case "$name" in
    paper-kaas | paper-streambox | paper-fluidfaas | paper-mqfq) ;;
    *) die "'$name' does not take --fresh" ;;
  esac
  [ -n "$traces" ] || die "--fresh draws from a folder of traces: --traces DIR"
  python3 -B bench/draw_inputs.py --traces "$traces" --seed "$fresh" --out "$scratch/inputs" --only "${name#paper-}" ||
    die "no inputs could be drawn"
  flags+=(--traces "$scratch/inputs" --seed "$fresh")
elif [ -n "$traces" ]; then
  # These read traces; the others take their usual work.
  case "$name" in
    replay | fidelity | models | paper-streambox | paper-streambox-cluster | paper-fluidfaas | paper-mqfq | paper-mqfq-worker | paper-streambox-worker) flags+=(--traces "$traces") ;;
    # Of those that have no arrivals for it, its own are taken.
    paper-kaas) [ ! -d "$traces/kaas" ] || flags+=(--traces "$traces") ;;
  esac
fi

build release all benches >&2
export LAMBENT_PREFIX="$root/build/release"
output="$scratch/output"
$command ${flags[@]+"${flags[@]}"} | tee "$output" || die "the benchmark failed"
[ -z "$table" ] || exit 0
tail -1 "$output" | python3 -c 'import json, sys; json.load(sys.stdin)' || die "the last line is no JSON object"
[ -z "$out" ] || tail -1 "$output" >"$out"
