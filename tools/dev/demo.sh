#!/usr/bin/env bash
# ./dev demo [--quick] [--report FILE] [--results DIR]: builds what a user runs, then shows it: functions deployed and invoked on an emulated GPU, and
# one workload under five schedulers.
source "$(dirname "$0")/common.sh"
export LAMBENT_UNITY="${LAMBENT_UNITY:-ON}"  # who builds to look, builds once
build release product
mkdir -p build
exec python3 -B build/release/share/lambent/demo.py --prefix build/release --report build/demo-report.html "$@"
