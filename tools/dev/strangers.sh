#!/usr/bin/env bash
# ./dev strangers --samples FOLDER --rodinia FOLDER --hecbench FOLDER [--only NAME...]: programs of others, from checkouts of NVIDIA's CUDA samples, of Rodinia or of HeCBench,
# compiled by nvcc, run over the emulated GPU, and again while their memory moves (tests/strangers/README.md). The table is build/strangers/strangers.md.
source "$(dirname "$0")/common.sh"
case " $* " in
  *" --help "* | *" -h "*) ;;
  *) build release lambent-bundle lambent-shim emulated_cuda_driver emulated_cuda_nvml emulated_cuda_runtime lambent_shim lambent_shim_nvml lambent_checkpoint >&2 ;;
esac
exec python3 -B tests/strangers/strangers.py "$@"
