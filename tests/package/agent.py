"""In a virtual machine: runs the commands that tests send, one after the other, as root. A line of JSON each way."""
import json
import os
import subprocess
import time

PORT = "/dev/vport0p1"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root", "LC_ALL": "C.UTF-8"}


def answer(line):
    asked = json.loads(line)
    try:
        done = subprocess.run(asked["command"], env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=asked["timeout"])
        return {"returncode": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"returncode": 127, "stdout": "", "stderr": str(error)}


def main():
    while not os.path.exists(PORT):
        time.sleep(0.05)
    port = os.open(PORT, os.O_RDWR)
    pending = b""
    while True:
        got = os.read(port, 65536)
        if not got:  # the tests have not come yet
            time.sleep(0.05)
        pending += got
        while b"\n" in pending:
            line, _, pending = pending.partition(b"\n")
            left = json.dumps(answer(line)).encode() + b"\n"
            while left:
                left = left[os.write(port, left):]


main()
