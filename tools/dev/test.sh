#!/usr/bin/env bash
# ./dev test: installs what is missing, builds the optimised build and runs every test of it. Further arguments go to ctest.
source "$(dirname "$0")/common.sh"
install_packages tools/dev/test-packages.txt
build release
python_packages tests/clients/requirements.txt
ctest --test-dir build/release --output-on-failure -j "$(nproc)" "$@"
