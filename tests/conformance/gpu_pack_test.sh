#!/usr/bin/env bash
# The archive for machines with a GPU: it is small, and what it holds runs without the repository, here over its emulated driver. A rehearsal:
# in two rounds every step runs once, and is once made to fail, to crash or to hang, while the rest goes on. gpu_pack_test.sh GPU.SH [whole]: with
# "whole" every step meets every kind of trouble, its own program over a driver that fails or hangs too.
set -euo pipefail
script="$1"
kinds="fail crash hang"
[ "${2:-}" != whole ] || kinds="fail crash hang driver stuck"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
fail() { echo "not so: $*" >&2; exit 1; }
gpu() { (cd / && env -i PATH=/usr/bin:/bin LAMBENT_GPU_BROKEN_LIMIT_S=4 "$folder/lambent-gpu-tests/gpu.sh" --emulated --quick "$@"); }

"$script" --pack "$folder/pack.tar.gz"
[ "$(stat -c %s "$folder/pack.tar.gz")" -lt $((60 << 20)) ] || fail "the archive stays below 60 MiB"
tar -C "$folder" -xzf "$folder/pack.tar.gz"

steps="machine doctor driver_memory swap torch_steps cublas_gemm onnx_session llm_generate shim checkpoint green_contexts mps contention blas device calibrate conformance"
count="$(wc -w <<<"$kinds")"
# Every other step is broken in a round; over the rounds each meets each kind that is asked for, or with three kinds one of them.
rounds=2
[ "$count" -eq 3 ] || rounds=$((2 * count))
for round in $(seq 0 $((rounds - 1))); do
  broken='' number=0
  for step in $steps; do
    if [ $(((number + round) % 2)) -eq 0 ]; then
      kind=$(((number / 2 + round / 2) % count + 1))
      broken="$broken $step=$(cut -d' ' -f$kind <<<"$kinds")"
    fi
    number=$((number + 1))
  done
  if gpu --suites 'Devices Interprocess Mig Launch' --break "$broken" --out "$folder/out" >"$folder/said" 2>&1; then fail "a run with failures is a failure"; fi
  python3 - "$folder/out/result.json" "$steps" "$broken" <<'CHECK' || { cat "$folder/said"; fail "the result tells what came of each step"; }
import json, sys
result = json.load(open(sys.argv[1]))
steps, broken = sys.argv[2].split(), dict(word.split("=") for word in sys.argv[3].split())
assert result["name"] == "gpu" and result["complete"] is True and result["emulated"] is True and "modelled" in result["note"], result
assert [row["name"] for row in result["steps"]] == steps, [row["name"] for row in result["steps"]]
rows = {row["name"]: row for row in result["steps"]}
wanted = {"fail": "failed", "crash": "crashed", "hang": "hung"}
# What loads no driver because its library is not here does not meet the driver's trouble, and the doctor asks none.
libraries = {"torch_steps", "cublas_gemm", "onnx_session", "llm_generate"}
for name, row in rows.items():
    kind = broken.get(name)
    if kind in wanted:
        assert row["outcome"] == wanted[kind] and ("made to" in row["reason"]), (kind, row)
    elif kind is not None:
        ways = {"failed", "hung"} | ({"not-checked"} if name in libraries else set()) | ({"ok"} if name == "doctor" else set())
        assert row["outcome"] in ways, (kind, row)
        assert row["outcome"] == "ok" or row["reason"], row
    elif name in libraries:
        assert row["outcome"] in ("ok", "not-checked"), row
        assert row["outcome"] == "ok" or row["reason"], row
    elif name == "calibrate":
        # Where no sandbox can be made, it says so.
        assert row["outcome"] in ("ok", "not-checked"), row
    else:
        assert row["outcome"] == "ok", row
    assert row["seconds"] <= row["limit_s"] + 8, row
if "conformance" not in broken:
    found = rows["conformance"]["result"]
    assert found["cases"] > 20 and found["failed"] == 0 and all(": " in skip for skip in found["skips"]), found
    assert found["suites_without_report"] == [] and found["suites_without_time"] == [], found
if "device" not in broken:
    assert rows["device"]["result"]["name"] == "device" and rows["device"]["result"]["launch"], rows["device"]
if "calibrate" not in broken and rows["calibrate"]["outcome"] == "ok":
    assert rows["calibrate"]["result"]["sandbox_ms"] > 0, rows["calibrate"]
if "contention" not in broken:
    assert rows["contention"]["result"]["alone_per_s"] > 0, rows["contention"]
print("round:", ", ".join(f"{name} {row['outcome']}" for name, row in rows.items()))
CHECK
  left="$(grep -lszF "LAMBENT_GPU_STEP=" /proc/[0-9]*/environ 2>/dev/null | while read -r environ; do
    tr '\0' '\n' <"$environ" 2>/dev/null | grep -qF "$folder" && echo "$environ"; done || true)"
  [ -z "$left" ] || fail "nothing that a step has started outlives it: $left"
done
LD_LIBRARY_PATH="$folder/lambent-gpu-tests/lib" "$folder/lambent-gpu-tests/bin/lambent" report "$folder/out/result.json" >"$folder/table" || fail "lambent report takes the result"
for step in $steps; do grep -q "^| $step | " "$folder/table" || fail "lambent report has a row for $step"; done

for words in "--only nosuchstep" "--break swap=burn" "--break nosuchstep=fail" "--suites NoSuchSuite" "--minutes x"; do
  if gpu $words --out "$folder/none" 2>"$folder/said"; then fail "$words is refused"; fi
  grep -q '^gpu: ' "$folder/said" || { cat "$folder/said"; fail "$words is refused with a reason"; }
done
# Who has no minute gets a result that says so.
if gpu --minutes 0 --out "$folder/none" 2>/dev/null; then fail "a run without time is a failure"; fi
grep -q '"outcome": "no-time"' "$folder/none/result.json" || fail "steps without time are told"
