"""What it takes to hand a tensor from a process on one slice to a process on another, through a stage channel, beside the two plain copies
that no way around the host can do without: device to page-locked host memory, and from there to the other device. In the same run, taking
turns; and the same for tensors of the host, beside two bare copies.

The slices are two MIG devices of an emulated A100: its links are modelled, the copies that stand behind them are the machine's own. In the
rows called slowed the device runs at a fraction of its speed, so that the machine's copies do not decide; times there are the device's.
"""
import argparse
import contextlib
import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from last_line import write_last_line
from worker_under_test import PREFIX, machine

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.pipeline import channel, values  # noqa: E402

MIB = 1 << 20
GOAL = 1.5
# Of the device's seconds in one of ours, in the slowed rows.
SLOWED = 1 / 16


def now_us():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e3


class Side:
    """What one of the two processes does: half of a hand-over, and its plain copy. The memory it copies is there before the clock runs;
    only take() allocates, as a lane does."""

    def __init__(self, role, path, most_bytes, on_device):
        self.role, self.on_device = role, on_device
        self.end = channel.SendingEnd(path) if role == "sender" else channel.ReceivingEnd(path)
        self.job = 0
        if on_device:
            import lambent_cuda as cuda

            self.cuda, self.device = cuda, cuda.Device()
            self.locked = ctypes.c_void_p()
            self.device.driver.call("cuMemAllocHost_v2", ctypes.byref(self.locked), ctypes.c_size_t(most_bytes))
            ctypes.memset(self.locked, role == "sender", most_bytes)
            self.tensors = {}
        else:
            self.host = ctypes.create_string_buffer(most_bytes)
            ctypes.memset(self.host, 1, most_bytes)
            self.other = ctypes.create_string_buffer(most_bytes)
            ctypes.memset(self.other, 2, most_bytes)

    def tensor(self, size):
        if size not in self.tensors:
            self.tensors = {size: self.device.tensor("uint8", (size,))}
            self.tensors[size].buffer.fill(self.job % 251)
        return self.tensors[size]

    def plain(self, size):
        """Microseconds of one plain copy, in this side's direction."""
        begin = now_us()
        if not self.on_device:
            ctypes.memmove(self.other, self.host, size)
        elif self.role == "sender":
            self.device.driver.call("cuMemcpyDtoH_v2", self.locked, self.tensor(size).pointer, ctypes.c_size_t(size))
        else:
            self.device.driver.call("cuMemcpyHtoD_v2", self.tensor(size).pointer, self.locked, ctypes.c_size_t(size))
        return now_us() - begin

    def hand_over(self, size, allocates):
        """When it began (sender) or was over (receiver), on the clock that both share."""
        self.job += 1
        if self.role == "sender":
            if self.on_device:
                value = self.tensor(size)
                value.buffer.fill(self.job % 251)
                self.device.synchronize()
            else:
                value = _HostTensor(self.host, size)
            begin = now_us()
            self.end.send(self.job, [value])
            return begin
        if self.on_device and not allocates:
            target = self.tensor(size)  # before the clock runs
        self.end.wait(60_000)
        if allocates:
            value, = self.end.take(1)
        elif self.on_device:
            self.end._copy(0, target.pointer.value, True, 0, 60_000)
            self.end.drop()
            value = target
        else:
            self.end._copy(0, ctypes.addressof(self.other), False, 0, 60_000)
            self.end.drop()
            value = None
        over = now_us()
        if self.on_device:
            self._check(value, size)
        return over

    def _check(self, value, size):
        byte = bytearray(1)
        for at in (0, size // 2, size - 1):
            value.buffer.read_into(byte, at)
            if byte[0] != self.job % 251:
                raise SystemExit(f"byte {at} of {size} arrived as {byte[0]}, not {self.job % 251}")


class _HostTensor:
    """Bytes that are described without being copied first."""

    def __init__(self, data, size):
        self.data, self.size = data, size


def _leaf_of(value, known=values.leaf_of):
    if isinstance(value, _HostTensor):
        return values.Leaf(value.data, values.BYTES, values.NUMBERS["uint8"], (value.size,), value.size,
                           ctypes.addressof(value.data), False)
    return known(value)


def serve(options):
    """One side: a command a line, an answer a line."""
    values.leaf_of = _leaf_of
    side = Side(options.side, options.channel, options.most_bytes, options.on_device)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "plain":
            answer = {"us": side.plain(command["bytes"])}
        else:
            answer = {"at_us": side.hand_over(command["bytes"], command["allocates"]), "note": side.end.note}
        print(json.dumps(answer), flush=True)


class Pair:
    """Both sides, with a channel between them."""

    def __init__(self, folder, most_bytes, on_device, time_scale=1.0):
        path = os.path.join(folder, "channel-%d-%g" % (on_device, time_scale))
        channel.create(path, slots=2, slot_bytes=most_bytes)
        environments = [dict(os.environ, LAMBENT_PREFIX=str(PREFIX)) for _ in range(2)]
        if on_device:
            node = os.path.join(folder, "node-%g" % time_scale)
            slices = make_slices(node, time_scale)
            for environment, uuid in zip(environments, slices):
                environment.update(EMULATED_CUDA_NODE=node, CUDA_VISIBLE_DEVICES=uuid,
                                   LD_LIBRARY_PATH=str(PREFIX / "lib/emulated"))
        self.time_scale, self.notes, self.sides = time_scale, set(), []
        for role, environment in zip(("sender", "receiver"), environments):
            command = [sys.executable, "-B", __file__, "--side", role, "--channel", path, "--most-bytes", str(most_bytes)]
            self.sides.append(subprocess.Popen(command + ["--on-device"] * on_device, env=environment, text=True,
                                               stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        for side in self.sides:
            self._answer(side)

    def _answer(self, side):
        line = side.stdout.readline()
        if not line:
            raise SystemExit("one side of the hand-over has ended: see above")
        return json.loads(line)

    def _ask(self, side, **command):
        side.stdin.write(json.dumps(command) + "\n")
        side.stdin.flush()

    def plain_ms(self, size):
        total = 0
        for side in self.sides:
            self._ask(side, do="plain", bytes=size)
            total += self._answer(side)["us"]
        return total / 1e3 * self.time_scale

    def hand_over_ms(self, size, allocates):
        sender, receiver = self.sides
        self._ask(receiver, do="hand_over", bytes=size, allocates=allocates)
        self._ask(sender, do="hand_over", bytes=size, allocates=allocates)
        begin, over = self._answer(sender), self._answer(receiver)
        self.notes |= {answer["note"] for answer in (begin, over) if answer["note"]}
        return (over["at_us"] - begin["at_us"]) / 1e3 * self.time_scale

    def close(self):
        for side in self.sides:
            side.stdin.close()
            side.wait()


def make_slices(node, time_scale):
    """The UUIDs of two MIG devices of a new emulated node."""
    gpu = str(PREFIX / "bin/emulated-gpu")
    subprocess.run([gpu, "create", "--node", node, "--config", "a100-80gb-mig", "--time-scale", str(time_scale)],
                   check=True, stdout=subprocess.DEVNULL)
    shown = json.loads(subprocess.run([gpu, "show", "--node", node, "--json"], check=True, capture_output=True).stdout)
    return [device["uuid"] for device in shown["devices"] if device["uuid"].startswith("MIG-")][-2:]


def measure(pair, sizes, repeats, allocates):
    """{key: {MiB: median}} of both, pair by pair, after a first hand-over that does not count: it page-locks its memory."""
    found = {"handover_ms": {}, "two_copies_ms": {}, "ratio_to_two_copies": {}, "first_handover_ms": {}}
    if allocates:
        found["handover_with_allocation_ms"] = {}
    for size in sizes:
        key = str(size // MIB)
        found["first_handover_ms"][key] = round(pair.hand_over_ms(size, False), 4)
        pair.hand_over_ms(size, False)
        pair.plain_ms(size)
        copies, hand_overs, allocating = [], [], []
        for _ in range(repeats):
            copies.append(pair.plain_ms(size))
            hand_overs.append(pair.hand_over_ms(size, False))
            if allocates:
                allocating.append(pair.hand_over_ms(size, True))
        found["handover_ms"][key] = round(statistics.median(hand_overs), 4)
        found["two_copies_ms"][key] = round(statistics.median(copies), 4)
        ratios = [hand_over / both for hand_over, both in zip(hand_overs, copies)]
        found["ratio_to_two_copies"][key] = round(statistics.median(ratios), 3)
        if allocates:
            found["handover_with_allocation_ms"][key] = round(statistics.median(allocating), 4)
    return found


def print_rows(name, found):
    for key, figures in found.items():
        print(f"{name + ' ' + key:>42} " + " ".join(f"{figure:>9}" for figure in figures.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes, fewer repeats")
    parser.add_argument("--repeats", type=int, help="of each measurement")
    parser.add_argument("--out")
    parser.add_argument("--traces", help="not used")
    # How the program starts itself, for each side.
    for flag in ("--side", "--channel"):
        parser.add_argument(flag, help=argparse.SUPPRESS)
    parser.add_argument("--most-bytes", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--on-device", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        return serve(options)
    sizes = [size * MIB for size in ((1, 16, 64) if options.quick else (1, 2, 4, 8, 16, 32, 64, 128))]
    repeats = options.repeats or (5 if options.quick else 21)
    result = {"bench": "stages", "quick": options.quick, "emulated": True, "machine": machine(), "repeats": repeats,
              "goal_ratio": GOAL, "slowed_time_scale": SLOWED}
    # In memory, as a worker's channels are.
    folder = tempfile.mkdtemp(prefix="lambent-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    notes = set()
    try:
        print(f"{'milliseconds, medians; MiB:':>42} " + " ".join(f"{size // MIB:>9}" for size in sizes))
        for name, on_device, time_scale in (("device", True, 1.0), ("slowed", True, SLOWED), ("host", False, 1.0)):
            # The slowed device takes its time: fewer of each.
            turns = repeats if name != "slowed" else max(2, repeats // 4)
            with contextlib.closing(Pair(folder, max(sizes), on_device, time_scale)) as pair:
                result[name] = measure(pair, sizes, turns, name == "device")
                notes |= pair.notes
            print_rows(name, result[name])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result["notes"] = sorted(notes)
    result["worst_ratio"] = {name: max(result[name]["ratio_to_two_copies"].values()) for name in ("device", "slowed", "host")}
    result["goal_met"] = result["worst_ratio"]["device"] <= GOAL
    write_last_line(result, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
