#!/usr/bin/env bash
# ./dev test [--all]: installs what is missing, builds the optimised build and runs every test of it. --all: also the tests that
# need large downloads. Further arguments go to ctest.
source "$(dirname "$0")/common.sh"
install_packages tools/dev/packages.txt
install_packages tools/dev/test-packages.txt
if [ "${1:-}" = --all ]; then
  shift
  install_packages tools/dev/browser-packages.txt
fi
clients=tests/clients/requirements.txt
if has_nvcc; then
  python_packages "$clients"
elif python_packages "$clients" tests/programs/requirements.txt; then
  # An older configuration has not seen this nvcc.
  [ ! -f build/release/build.ninja ] || cmake build/release >/dev/null
else
  say "NVIDIA's compiler could not be fetched: the tests of tests/programs will be SKIPPED"
  python_packages "$clients"
fi
build release
ctest --test-dir build/release --output-on-failure -j "$(nproc)" "$@"
