#!/usr/bin/env bash
# ./dev test: installs what is missing, builds the optimised build and runs every test of it.
source "$(dirname "$0")/common.sh"
build release
ctest --test-dir build/release --output-on-failure -j "$(nproc)" "$@"
