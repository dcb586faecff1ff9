#!/usr/bin/env bash
# ./dev build [release|asan|tsan|fuzz] [targets...]
source "$(dirname "$0")/common.sh"
build "$@"
