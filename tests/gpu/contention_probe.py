"""Two processes on one device: each alone, both at once, and by turns of 100 ms under a lock, as a worker gives them. As JSON; needs only the driver."""
import json
import os
import tempfile

import clients

SECONDS = 3


def main():
    ((alone, _),) = clients.rates(1, SECONDS)
    together = [rate for rate, _ in clients.rates(2, SECONDS)]
    with tempfile.TemporaryDirectory() as folder:
        lock = os.path.join(folder, "turn")
        turns = clients.rates(2, SECONDS, "--lock", lock, "--turn-ms", 100)
    by_turns = [rate for rate, _ in turns]
    print(json.dumps({"alone_per_s": round(alone, 2), "together_per_s": [round(rate, 2) for rate in together],
                      "by_turns_per_s": [round(rate, 2) for rate in by_turns], "together_of_alone": round(sum(together) / alone, 4),
                      "by_turns_of_alone": round(sum(by_turns) / alone, 4), "longest_wait_ms": round(1e3 * max(wait for _, wait in turns), 1)}))


main()
