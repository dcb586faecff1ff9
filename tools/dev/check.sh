#!/usr/bin/env bash
# ./dev check [--quick]: the whole truth. Format, layers, headers, tests, then ASan+UBSan and TSan builds.
# --quick leaves the sanitizer builds out.
source "$(dirname "$0")/common.sh"
quick=no
[ "${1:-}" = --quick ] && quick=yes

install_packages tools/dev/packages.txt
install_packages tools/dev/check-packages.txt
say "format"
git ls-files '*.h' '*.cc' '*.c' '*.cu' | xargs clang-format --dry-run --Werror
say "layers, sizes, prose, dependencies, links and headers"
python3 tools/check_layering.py
python3 tools/check_classes.py
python3 tools/check_prose.py
python3 tools/check_dependencies.py
python3 tools/check_links.py
python3 tools/check_versions.py
python3 tools/structure_figures.py
tools/check_headers.sh
tools/dev/test.sh
say "locks"
python3 tools/check_locks.py build/release
say "modules as batches"
python3 tools/check_unity.py build/release
[ "$quick" = yes ] && exit 0

# Tests that start processes of a foreign make (awscli, interpreters that preload our libraries) bear the label no-asan.
say "address and undefined-behaviour sanitizers"
build asan
ASAN_OPTIONS=detect_leaks=1 LSAN_OPTIONS=suppressions="$root/tools/dev/leaks.supp" UBSAN_OPTIONS=print_stacktrace=1 \
  ctest --test-dir build/asan --output-on-failure --no-tests=error -j "$(nproc)" -LE no-asan

say "thread sanitizer, for the modules with threads"
threaded=(base_test loop_test http_test catalog_test metrics_test worker_test journal_store_test monitor_test
  forward_server_test stage_channel_test shim_test emulated_node_test emulated_cuda_test inference_test volumes_test executor_test
  telemetry_test tls_test tenants_test ledger_test runtime_client_test forward_ring_test http_relay_test cluster_test objects_test
  emulated_runtime_test grpc_inference_test cell_work_test)
build tsan "${threaded[@]}" conformance_test kernel_bundles tested_kernel_bundles
for program in "${threaded[@]}"; do
  ctest --test-dir build/tsan --output-on-failure --no-tests=error -j "$(nproc)" -L "^$program\$"
done
# The emulated driver, in the process of the suite. Left out: exact times, and a hole between pages that the sanitizer may fill.
GTEST_FILTER=-Timing.TheSameSubmissionsGiveTheSameTimes:Memory.HostMemoryThatIsNotThereIsAnError \
  ctest --test-dir build/tsan --output-on-failure --no-tests=error -R '^conformance_(node|emulated)_'
