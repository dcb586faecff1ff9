#!/usr/bin/env bash
# perf_analyzer.sh FOLDER: Triton's load generator of PyPI, for tests/clients/test_perf_analyzer.py. It is built for a C library of 2.38 or newer:
# where this system's is older, FOLDER/libraries gets those of Debian 13, with its loader, and nothing of the system changes.
set -euo pipefail
version=2.60.0
debian=trixie
folder="$1"
installed="$folder/installed.txt"
[ "$version" != "$(cat "$installed" 2>/dev/null)" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder/libraries"
.venv/bin/pip install --quiet --disable-pip-version-check --retries 5 --no-deps --only-binary :all: --platform manylinux_2_38_x86_64 \
  --target "$folder" "perf-analyzer==$version"
program="$folder/perf_analyzer/bin/perf_analyzer"
chmod +x "$program"
if ! "$program" --version >/dev/null 2>&1; then
  root="$(mktemp -d)"
  trap 'rm -rf "$root"' EXIT
  "$(dirname "$0")/unpack_debian.sh" "$debian" "$root" libc6 libstdc++6 libgcc-s1 libssl3t64 zlib1g
  cp -L "$root"/usr/lib/x86_64-linux-gnu/*.so.* "$folder/libraries/"
  "$folder/libraries/ld-linux-x86-64.so.2" --library-path "$folder/libraries" "$program" --version >/dev/null
else
  rmdir "$folder/libraries"
fi
echo "$version" >"$installed"
