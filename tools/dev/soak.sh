#!/usr/bin/env bash
# ./dev soak [SECONDS] [--hours N] [--worlds N] [--seed FIRST]: worlds in which everything goes wrong, seed after seed, each held to
# the dispatcher's invariants after every event. ./dev soak --replay SEED: one of them, with its last events in words.
# ./dev soak --node [SECONDS] [--hours N] [--seed S]: the running system instead, killed, starved and flooded under load; --help says more.
source "$(dirname "$0")/common.sh"
if [ "${1:-}" = --node ]; then
  shift
  build release >&2
  export LAMBENT_PREFIX="$root/build/release"
  exec python3 -B tests/soak/node/sceptic.py "$@"
fi
build release soak_runner >&2
exec build/release/tests/soak_runner "$@"
