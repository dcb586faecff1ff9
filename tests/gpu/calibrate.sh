#!/usr/bin/env bash
# A worker on this machine's GPU and `lambent calibrate`, as a step of tools/dev/gpu.sh, which sets PREFIX, LIBRARIES, DRIVER, OUT, PAPER_FUNCTION,
# EMULATED and QUICK: OUT/node.toml is what `lambent simulate --profile` takes. Its last line is a JSON object.
set -uo pipefail
folder="$(mktemp -d -t gpu_worker_XXXXXX)"
lambent() { env ${LIBRARIES:+LD_LIBRARY_PATH="$LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"} "$PREFIX/bin/lambent" "$@"; }
worker=''
finish() {
  [ -z "$worker" ] || { kill "$worker" 2>/dev/null; wait "$worker" 2>/dev/null; }
  rm -rf "$folder"
}
trap finish EXIT
trap 'exit 143' TERM

gpu=(--gpu nvidia --nvidia-driver "$(dirname "$DRIVER")")
[ "$EMULATED" = no ] || gpu=(--gpu emulated:v100-16gb --time-scale 5)
# What adapts would let runs wait rather than slow each other down, and they would seem to cost nothing.
lambent serve --listen none --socket "$folder/api.sock" --state "$folder/state" --run "$folder/run" "${gpu[@]}" \
  --set adapts=false --set foresee=false >"$folder/worker.log" 2>&1 &
worker=$!
for _ in $(seq 300); do
  [ -S "$folder/api.sock" ] && lambent --endpoint "unix:$folder/api.sock" ps >/dev/null 2>&1 && break
  if ! kill -0 "$worker" 2>/dev/null; then
    cat "$folder/worker.log" >&2
    # Where namespaces are forbidden, as in many containers, no worker can run.
    if grep -qi 'namespace\|sandbox' "$folder/worker.log"; then exit 77; fi
    exit 1
  fi
  sleep 0.1
done
rm -f "$OUT/node.toml"
repeats=9
[ "$QUICK" = no ] || repeats=1
lambent --endpoint "unix:$folder/api.sock" calibrate -o "$OUT/node.toml" --repeats "$repeats" --paper-function "$PAPER_FUNCTION" >&2 ||
  { tail -5 "$folder/worker.log" >&2; exit 1; }
# What was measured, one "key = value" a line, as an object; lists stay lists.
printf '{%s}\n' "$(sed -n 's/^\([a-z_0-9]*\) *= *\(.*\)$/"\1": \2/p' "$OUT/node.toml" | sed 's/ *#.*//' | paste -sd, -)"
