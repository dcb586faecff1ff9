"""T. The clock of the machine is set while work is under way: only what is of the calendar may notice.

The wall clock is stepped for one worker, by a library that is preloaded into it and its sandboxes (tests/soak/wall_clock_step.c); the machine's stays.
"""
import email.utils
import struct
import subprocess
import threading
import time

import harness
from harness import HttpError
from verdicts import Skip, checks, require

LIBRARY = harness.PREFIX / "tests/wall_clock_step.so"
STEPS = (-6 * 3600, 23 * 3600, 90, 6 * 3600, -90)
OFFSETS = ("86400", "10000000")
EVENT = "import time\ndef handler(e, c): time.sleep(e.get('s', 0)); return [e['n'], c.get_remaining_time_in_millis()]"


def told_time(worker):
    return email.utils.parsedate_to_datetime(worker.request("GET", "/v1/version").headers["date"]).timestamp()


@checks("T", "steps of the wall clock change no time-out, lose no invocation, and end no result early")
def wall(ground):
    if not LIBRARY.exists():
        raise Skip(f"{LIBRARY} is not built: ./dev build release wall_clock_step")
    file = ground.folder / "wall-clock"
    file.write_bytes(bytes(8))

    def step(seconds):
        with open(file, "r+b", buffering=0) as mapped:
            mapped.write(struct.pack("=q", seconds * 10**9))
    worker = ground.new_worker("clock", "--concurrency", "4", gpu="none",
                               environment={"LD_PRELOAD": str(LIBRARY), "LAMBENT_WALL_CLOCK_STEP": str(file)})
    try:
        worker.create_python("timed", EVENT, timeout=3, memory=64, tags={"lambent:max-concurrency": "4"})
        worker.invoke("timed", {"n": 0})
        first = worker.invoke("timed", {"n": 41}, kind="Event").headers["x-amzn-requestid"]
        results, wrong = [], []

        def call(seconds, n):
            try:
                results.append((n, seconds, worker.invoke("timed", {"n": n, "s": seconds})))
            except (OSError, HttpError) as error:
                wrong.append(f"{n}: {error}")
        for place, seconds in enumerate(STEPS[:2] if ground.short else STEPS):
            started = time.monotonic()
            threads = [threading.Thread(target=call, args=(s, place * 10 + k)) for k, s in enumerate((0.3, 0.6, 5))]
            for each in threads:
                each.start()
            time.sleep(0.15)
            step(seconds)
            # The date of answers is made once a second.
            worker.wait_for(lambda: abs(told_time(worker) - time.time() - seconds) < 5, 3, f"a clock that was set by {seconds} s")
            require(worker.invoke("timed", {"n": 7}).json[0] == 7, "a call right after the step")
            for each in threads:
                each.join()
            took = time.monotonic() - started
            require(2.5 < took < 6, f"with a step of {seconds} s a time-out of 3 s took {took:.1f} s")
        require(not wrong, str(wrong[:3]))
        for n, seconds, reply in results:
            timed_out = reply.json.get("errorType") == "Sandbox.Timeout" if isinstance(reply.json, dict) else False
            require(timed_out == (seconds == 5), f"{n}: {seconds} s of work with a time-out of 3 s answered {reply.body[:100]}")
        step(23 * 3600)
        require(worker.request("GET", f"/v1/invocations/{first}").json[0] == 41, "a result of today is gone")
        worker.kill()
        step(-3600)
        worker.start()
        require(worker.invoke("timed", {"n": 9}).json[0] == 9, "a start in the past")
        require(worker.request("GET", f"/v1/invocations/{first}").json[0] == 41, "a result of the future is gone")
    finally:
        worker.close()
    return {"steps_s": STEPS[:2] if ground.short else STEPS, "calls": len(results)}


@checks("T", "a worker whose monotonic clock began elsewhere serves as ever")
def monotonic(ground):
    """In a time namespace: what was kept by a worker with one monotonic clock is read by one with another."""
    probe = subprocess.run(["unshare", "--time", "--monotonic", "86400", "--boottime", "86400", "--fork", "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        raise Skip(f"this machine makes no time namespaces ({probe.stderr.strip()}); run it as root")
    worker = ground.new_worker("monotonic", gpu="none")
    try:
        worker.create_python("timed", EVENT, timeout=3, memory=64)
        first = worker.invoke("timed", {"n": 41}, kind="Event").headers["x-amzn-requestid"]
        worker.wait_for(lambda: worker.request("GET", f"/v1/invocations/{first}").headers.get("x-lambent-outcome"), what="an outcome")
        for offset in OFFSETS[:1] if ground.short else OFFSETS:
            worker.stop()
            real = subprocess.Popen
            # Without --fork it would stay outside; exec keeps the pid that the harness kills.
            words = ["unshare", "--time", "--monotonic", offset, "--boottime", offset, "sh", "-c", 'exec "$0" "$@"']
            subprocess.Popen = lambda command, *rest, **options: real(words + command, *rest, **options)
            try:
                worker.start()
            finally:
                subprocess.Popen = real
            require(worker.request("GET", f"/v1/invocations/{first}").json[0] == 41, "a result is gone")
            require(worker.invoke("timed", {"n": 1}).json[0] == 1, "a call")
            started = time.monotonic()
            late = worker.invoke("timed", {"n": 2, "s": 10}).json
            require(late.get("errorType") == "Sandbox.Timeout" and 2.5 < time.monotonic() - started < 6, f"a time-out: {late}")
    finally:
        worker.close()
    return {"offsets_s": OFFSETS[:1] if ground.short else OFFSETS}
