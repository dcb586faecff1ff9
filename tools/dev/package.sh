#!/usr/bin/env bash
# ./dev package: in dist/ a tarball and a Debian package that need no compiler, and the list of what they are made of (docs/get-started/install.md).
source "$(dirname "$0")/common.sh"
build release product
say "packing"
exec python3 -B tools/package/make.py --build build/release --out dist
