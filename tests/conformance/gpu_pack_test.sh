#!/usr/bin/env bash
# The archive for machines with a GPU: it is small, and what it holds runs without the repository, here over its emulated driver.
set -euo pipefail
script="$1"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
fail() { echo "not so: $*" >&2; exit 1; }

"$script" --pack "$folder/pack.tar.gz"
[ "$(stat -c %s "$folder/pack.tar.gz")" -lt $((60 << 20)) ] || fail "the archive stays below 60 MiB"
tar -C "$folder" -xzf "$folder/pack.tar.gz"
if ! (cd / && env -i PATH=/usr/bin:/bin "$folder/lambent-gpu-tests/gpu.sh" --emulated --quick --suites 'Devices Interprocess Mig Launch' --out "$folder/out"); then
  cat "$folder/out/log.txt"
  fail "every suite of the archive passes"
fi
python3 - "$folder/out/result.json" <<'CHECK' || fail "the result says what was run, and that it was emulated"
import json, sys
result = json.load(open(sys.argv[1]))
assert result["emulated"] is True and "modelled" in result["note"], result
assert result["conformance"]["cases"] > 20 and result["conformance"]["failed"] == 0, result
assert result["conformance"]["suites_without_report"] == [] and all(": " in skip for skip in result["conformance"]["skips"]), result
assert result["device"]["name"] == "device" and result["device"]["launch"], result
CHECK
if "$folder/lambent-gpu-tests/gpu.sh" --emulated --suites NoSuchSuite --out "$folder/none" 2>/dev/null; then fail "a run without any case is a failure"; fi
