#!/usr/bin/env bash
# ./dev adversary [--short] [--only SECTIONS] [--json FILE]: what an attacker, a careless tenant and bad luck do to a worker of its
# own, counted: held, failed, known, skipped; --help says more. Exit code 1 if anything failed.
source "$(dirname "$0")/common.sh"
case " $* " in *" --list "* | *" --help "* | *" -h "*) ;; *) build release >&2 ;; esac
export LAMBENT_PREFIX="$root/build/release"
exec python3 -B tests/adversary/adversary.py "$@"
