#!/usr/bin/env bash
# ./dev soak [SECONDS] [--hours N] [--worlds N] [--seed FIRST]: worlds in which everything goes wrong, seed after seed, each held to
# the dispatcher's invariants after every event. ./dev soak --replay SEED: one of them, with its last events in words.
source "$(dirname "$0")/common.sh"
build release soak_runner >&2
exec build/release/tests/soak_runner "$@"
