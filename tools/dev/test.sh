#!/usr/bin/env bash
# ./dev test [--all]: installs what is missing, builds the optimised build and runs its tests. --all: also those of the label
# `whole` (long ones, benchmarks, what needs a browser), and the long form of tests that have two. Further arguments go to ctest.
source "$(dirname "$0")/common.sh"
install_packages tools/dev/packages.txt
install_packages tools/dev/test-packages.txt
targets=(all)
choice=(--label-exclude '^whole$')
if [ "${1:-}" = --all ]; then
  shift
  install_packages tools/dev/browser-packages.txt
  install_packages tools/dev/system-packages.txt
  targets+=(benches)
  choice=()
  export LAMBENT_WHOLE_TESTS=1
fi
# Moto, numba-cuda with NVRTC and Ray Serve are large: without them tests/clients/test_numba.py, test_nvrtc.py, and parts of test_model_store.py and
# test_ray_nodes.py are skipped, and say so.
large=()
[ -z "${LAMBENT_WHOLE_TESTS:-}" ] || large=(tests/clients/moto-requirements.txt tests/clients/numba-requirements.txt tests/clients/ray-serve-requirements.txt)
clients=(tests/clients/requirements.txt tests/integration/requirements.txt tests/package/requirements.txt ${large[@]+"${large[@]}"})
# Where there is a Chromium the dashboard's tests run too.
if [ ${#choice[@]} -eq 0 ] || command -v chromium chromium-browser google-chrome >/dev/null; then
  clients+=(tests/browser/requirements.txt)
fi
if has_nvcc; then
  python_packages "${clients[@]}"
elif python_packages "${clients[@]}" tests/programs/requirements.txt; then
  # An older configuration has not seen this nvcc.
  [ ! -f build/release/build.ninja ] || cmake build/release >/dev/null
else
  say "NVIDIA's compiler could not be fetched: the tests of tests/programs will be SKIPPED"
  python_packages "${clients[@]}"
fi
# Ray, which not every system can have: without it the tests of tests/clients/test_ray*.py are skipped, and say so.
more_python_packages tests/clients/ray-requirements.txt ||
  say "Ray could not be installed: the tests of tests/clients/test_ray*.py will be SKIPPED"
# KServe's client, which goes with no other's protobuf: without it tests/clients/test_kserve.py is skipped, and says so.
kserve=.cache/kserve
wanted="$(cat tests/clients/kserve-requirements.txt)"
if [ -n "${LAMBENT_WHOLE_TESTS:-}" ] && [ "$wanted" != "$(cat "$kserve/installed.txt" 2>/dev/null)" ]; then
  rm -rf "$kserve"
  .venv/bin/pip install --quiet --disable-pip-version-check --retries 5 --no-deps --target "$kserve" -r tests/clients/kserve-requirements.txt
  printf '%s\n' "$wanted" >"$kserve/installed.txt"
fi
# perf_analyzer, whose C library is newer than Debian 12's: without it tests/clients/test_perf_analyzer.py is skipped, and says so.
[ -z "${LAMBENT_WHOLE_TESTS:-}" ] || tools/dev/perf_analyzer.sh .cache/perf_analyzer ||
  say "perf_analyzer could not be fetched: its tests will be SKIPPED"
# A Python that Debian 12 has not: without it python/tests/test_other_pythons.py has one version less, and says which it had.
[ -z "${LAMBENT_WHOLE_TESTS:-}" ] || tools/dev/newer_python.sh 3.14 .cache/python3.14 ||
  say "Python 3.14 could not be fetched: python/tests/test_other_pythons.py goes without it"
# OpenTelemetry's own Collector: without it a test of tests/clients/test_opentelemetry.py is skipped, and says so.
[ -z "${LAMBENT_WHOLE_TESTS:-}" ] || tools/dev/opentelemetry_collector.sh .cache/collector ||
  say "OpenTelemetry's Collector could not be compiled: its test will be SKIPPED"
# NVIDIA's own driver library: without it the tests of tests/nvidia_driver are skipped, and say so.
tools/fetch_nvidia_driver.py build/nvidia-driver >/dev/null ||
  say "NVIDIA's driver library could not be fetched: the tests of tests/nvidia_driver will be SKIPPED"
# Real frameworks, 3 GB: without them the tests of tests/frameworks are skipped, and pages' commands that deploy them are only looked up.
[ -z "${LAMBENT_WHOLE_TESTS:-}" ] || .venv/bin/python tools/framework_wheels.py build/framework-wheels >/dev/null ||
  say "the wheels of real frameworks could not be fetched: the tests of tests/frameworks, and what pages deploy of them, will be SKIPPED"
build release "${targets[@]}"
if [ ${#choice[@]} -gt 0 ]; then
  left_out="$(ctest --test-dir build/release --show-only -L '^whole$' | sed -n 's/^  Test *#[0-9]*: //p' | paste -sd ' ')"
  say "without $left_out, and with the short form of long tests: ./dev test --all runs them"
fi
# Tests of a running worker mostly wait, so that up to four more run than there are cores. Those that compute count for two (PROCESSORS).
cores="$(nproc)"
rm -f build/release/Testing/Temporary/LastTestsFailed.log  # of an earlier run
ctest --test-dir build/release --output-on-failure -j "$((cores + (cores < 4 ? cores : 4)))" ${choice[@]+"${choice[@]}"} "$@" ||
  tools/repeat_failed.py build/release
