"""MPS: two clients of a daemon that this starts, their shares and the limit of their memory. As JSON; needs nvidia-cuda-mps-control, which comes
with the driver. With --no-daemon the clients are of an MPS that is there already, as on an emulated node."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

import clients

SECONDS = 3
LIMIT_MIB = 256
CONTROL = "nvidia-cuda-mps-control"


@contextlib.contextmanager
def daemon(folder):
    """An MPS daemon with its pipes in the folder; yields the environment of its clients."""
    environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": os.path.join(folder, "pipe"), "CUDA_MPS_LOG_DIRECTORY": os.path.join(folder, "log")}
    for name in ("pipe", "log"):
        os.mkdir(os.path.join(folder, name))
    began = subprocess.run([CONTROL, "-d"], env=environment, capture_output=True, text=True, timeout=30)
    if began.returncode != 0:
        sys.exit(f"{CONTROL} -d: " + (began.stderr or began.stdout).strip()[-300:])
    try:
        yield environment
    finally:
        subprocess.run([CONTROL], input="quit -t 5\n", env=environment, capture_output=True, text=True, timeout=60, check=False)


def fill(mib, environment):
    process = clients.start("fill", mib, environment=environment)
    out, err = process.communicate(timeout=60)
    if process.returncode != 0:
        sys.exit("a client failed: " + err.strip()[-300:])
    return int(out)


def measure(environment):
    half = {**environment, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}
    limited = {**environment, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={LIMIT_MIB}M"}
    ((alone, _),) = clients.rates(1, SECONDS, environment=environment)
    both = [rate for rate, _ in clients.rates(2, SECONDS, environment=environment)]
    halves = [rate for rate, _ in clients.rates(2, SECONDS, environment=half)]
    return {"alone_per_s": round(alone, 2), "both_per_s": [round(rate, 2) for rate in both], "halves_per_s": [round(rate, 2) for rate in halves],
            "both_of_alone": round(sum(both) / alone, 4), "limit_mib": LIMIT_MIB,
            "limit_holds": fill(LIMIT_MIB // 4, limited) == 0 and fill(2 * LIMIT_MIB, limited) != 0}


def main():
    if "--no-daemon" in sys.argv[1:]:
        result = measure(dict(os.environ))
    elif shutil.which(CONTROL) is None:
        print(f"there is no {CONTROL} in the PATH", file=sys.stderr)
        sys.exit(77)
    else:
        with tempfile.TemporaryDirectory() as folder, daemon(folder) as environment:
            result = measure(environment)
    print(json.dumps(result))
    if not result["limit_holds"]:
        sys.exit("the limit of a client's memory does not hold")


main()
