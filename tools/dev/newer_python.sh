#!/usr/bin/env bash
# newer_python.sh VERSION FOLDER: a Python that Debian 12 has not, such as 3.14, as FOLDER/usr/bin/pythonVERSION, from Debian's unstable
# suite with its own C library and loader; for python/tests/test_other_pythons.py.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
version="$1" folder="$2"
program="$folder/usr/bin/python$version"
[ ! -e "$folder/installed.txt" ] || exit 0
rm -rf "$folder"
"$here/unpack_debian.sh" sid "$folder" "python$version"
mv "$program" "$program.of-debian"
# --argv0: Python finds its folders, and the program of its own children, by the name that it was called with.
cat >"$program" <<'EOF'
#!/bin/sh
program="$(readlink -f "$0")"
root="${program%/usr/bin/*}"
exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
  --argv0 "$program" "$program.of-debian" "$@"
EOF
chmod +x "$program"
"$program" -c 'import ctypes, json, sqlite3, ssl, subprocess, sys; subprocess.run([sys.executable, "-c", "pass"], check=True)'
"$program" -c 'import sys; print(sys.version)' >"$folder/installed.txt"
