"""F. Ten times more than can be served."""
import collections
import concurrent.futures
import threading
import time

from ground import MIB, memory_of, percentile, status_of
from harness import HttpError
from verdicts import checks, require

SERVICE_S, AT_ONCE = 0.05, 2  # forty a second


def storm(worker, seconds, clients):
    """Clients that ask again as soon as they are answered; (status counts, waits of those that were served, values of Retry-After)."""
    counts, waits, retries, lock = collections.Counter(), [], [], threading.Lock()
    deadline = time.monotonic() + seconds

    def client():
        while time.monotonic() < deadline:
            started = time.monotonic()
            try:
                worker.invoke("slow", {}, timeout=60)
                status = 200
            except HttpError as error:
                status = error.status
                with lock:
                    retries.append(error.headers.get("retry-after"))
            except OSError:
                status = "no answer"
            with lock:
                counts[status] += 1
                if status == 200:
                    waits.append(time.monotonic() - started)
            if status != 200:
                time.sleep(0.1)  # a client that is told to go away does not come back at once
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return counts, waits, retries


def flooded(ground):
    wait = ("--set", "queue_wait_s=2") if ground.short else ()
    worker = ground.new_worker(ground.name("overload"), "--concurrency", "4", *wait, gpu="none")
    worker.create_python("slow", f"import time\ndef handler(e, c): time.sleep({SERVICE_S})", memory=64, tags={"lambent:max-concurrency": str(AT_ONCE)})
    worker.create_python("good", "def handler(event, context): return 'good'", memory=64)
    worker.invoke("slow")
    return worker


@checks("F", "at ten times the load throughput stays, memory stays, and who is refused is told when to come back")
def ten_times(ground):
    worker = flooded(ground)
    try:
        before, seconds = memory_of(worker.process.pid), max(4, 20 * ground.scale)
        beside = []
        storming = threading.Thread(target=lambda: beside.append(storm(worker, seconds, 400)))
        storming.start()
        slowest = 0
        while storming.is_alive():
            started = time.monotonic()
            require(worker.invoke("good").json == "good", "the function beside failed")
            slowest = max(slowest, time.monotonic() - started)
            time.sleep(0.1)
        counts, waits, retries = beside[0]
        started = time.monotonic()
        worker.invoke("slow", timeout=60)
        after = time.monotonic() - started
        grown = memory_of(worker.process.pid) - before
    finally:
        worker.close()
    strange = set(counts) - {200, 429}
    require(not strange, f"answers {dict(counts)}")
    served = counts[200] / (seconds + max(waits))
    require(served > 0.6 * AT_ONCE / SERVICE_S, f"{served:.1f} a second of {AT_ONCE / SERVICE_S:.0f}")
    require(counts[429] == 0 or all(each is not None and each.isdigit() for each in retries), "refused without Retry-After")
    require(grown < 96 * MIB, f"the worker grew by {grown // MIB} MiB")
    require(slowest < 5, f"the function beside waited {slowest:.1f} s")
    require(after < 12, f"afterwards a call took {after:.1f} s")
    return {"answers": {str(each): count for each, count in counts.items()}, "served_per_s": round(served, 1),
            "wait_p50_s": round(percentile(waits, 0.5), 2), "wait_p99_s": round(percentile(waits, 0.99), 2), "grown_bytes": grown,
            "slowest_beside_s": round(slowest, 2)}


@checks("F", "what is admitted under overload does not wait the whole limit", short=False)
def standing_queue(ground):
    worker = flooded(ground)
    try:
        _, waits, _ = storm(worker, max(14, 20 * ground.scale), 600)
    finally:
        worker.close()
    p99 = percentile(waits, 0.99)
    require(p99 < 10 * SERVICE_S, f"p99 {p99:.2f} s, p50 {percentile(waits, 0.5):.2f} s of {SERVICE_S} s of work")
    return {"wait_p99_s": round(p99, 2)}


@checks("F", "asynchronous calls beyond the queue are refused, and those that were taken all end")
def asynchronous(ground):
    worker = ground.new_worker(ground.name("queue"), "--concurrency", "4", "--set", "queued_per_function=100", gpu="none")
    try:
        worker.create_python("slow", f"import time\ndef handler(e, c): time.sleep({SERVICE_S}); return e['n']", memory=64,
                             tags={"lambent:max-concurrency": str(AT_ONCE)})
        def submit(n):
            status, reply = status_of(worker.invoke, "slow", {"n": n}, kind="Event")
            return status, reply.headers.get("x-amzn-requestid")
        with concurrent.futures.ThreadPoolExecutor(16) as clients:
            answers = list(clients.map(submit, range(600)))
        strange = {status for status, _ in answers} - {202, 429}
        require(not strange, f"answered {strange}")
        taken, refused = [each for status, each in answers if status == 202], sum(status == 429 for status, _ in answers)
        deadline = time.monotonic() + 60
        pending = list(taken)
        while pending and time.monotonic() < deadline:
            pending = [each for each in pending if not worker.request("GET", f"/v1/invocations/{each}").headers.get("x-lambent-outcome")]
        require(not pending, f"{len(pending)} of {len(taken)} have no outcome")
        require(refused > 0, f"all {len(taken)} were taken, and 100 may wait")
    finally:
        worker.close()
    return {"taken": len(taken), "refused": refused}
