#!/usr/bin/env bash
# ./dev check [--quick]: the whole truth. Format, layers, headers, tests, then ASan+UBSan and TSan builds.
# --quick leaves the sanitizer builds out.
source "$(dirname "$0")/common.sh"
quick=no
[ "${1:-}" = --quick ] && quick=yes

install_packages tools/dev/packages.txt
install_packages tools/dev/check-packages.txt
say "format"
git ls-files 'src/*.h' 'src/*.cc' 'bench/*.cc' 'tests/*.cc' | xargs clang-format --dry-run --Werror
say "layers and headers"
python3 tools/check_layering.py
tools/check_headers.sh
tools/dev/test.sh
[ "$quick" = yes ] && exit 0

say "address and undefined-behaviour sanitizers"
build asan
ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
  ctest --test-dir build/asan --output-on-failure -j "$(nproc)" -LE no-asan
say "thread sanitizer, for the rooms with threads"
build tsan loop_test http_test catalog_test metrics_test worker_test
ctest --test-dir build/tsan --output-on-failure -R '^(EventLoop|Mailbox|Server|Catalog|Metrics|Worker)'
