"""Functions whose GPU memory together exceeds the device's: it moves to the host while they rest and comes back unchanged."""
import tempfile
import threading
import unittest

from harness import PREFIX, Worker
from test_gpu import GpuTest

MIB = 1 << 20

# Holds its memory for as long as it lives, with a pattern of its own in it, and looks at it at every call.
HOLDER = """
import array, os, stat
import lambent_cuda as cuda

SIZE = int(os.environ["HOLD_MIB"]) << 20
device = cuda.Device()
words = array.array("I", ((int(os.environ["SEED"]) + i) & 0xffffffff for i in range(1 << 16))).tobytes()
held = [device.buffer(words) for _ in range(SIZE // len(words))]
calls = 0

def close_sockets():
    # Those at high numbers, as closefrom does with all: they are the shim's.
    closed = 0
    for number in range(900, 1024):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                os.close(number)
                closed += 1
        except OSError:
            pass
    return closed

def handler(event, context):
    global calls
    calls += 1
    changed = [i for i, one in enumerate(held) if one.bytes() != words]
    if event.get("crash"):
        os.abort()
    if event.get("close"):
        return {"changed": changed, "calls": calls, "closed": close_sockets()}
    return {"changed": changed, "calls": calls, "free": device.memory_info()[0]}
"""


class MovingTest(GpuTest):
    flags = ("--concurrency", "2", "--context-memory", "16")
    held = 280  # MiB of a holder, of which three fit the device

    def create_holders(self, count, mib=None, tags=None):
        mib = mib or self.held
        self.names = [f"{self.id().rpartition('.')[2]}-{i}"[-60:] for i in range(count)]
        for i, name in enumerate(self.names):
            self.create_gpu(name, HOLDER, gpu_memory=f"{mib + mib // 14}MiB", tags=tags, memory=512,
                            environment={"HOLD_MIB": str(mib), "SEED": str(1000 * i)})

    def tearDown(self):
        for name in getattr(self, "names", []):
            self.worker.delete(name)

    def metric(self, name, part=""):
        return sum(float(line.rpartition(" ")[2]) for line in self.worker.metrics().splitlines()
                   if line.startswith(name + "{") and part in line)

    def moved_bytes(self, direction):
        return self.metric("lambent_gpu_memory_moved_bytes_total", f'direction="{direction}"')

    def call(self, name, event=None):
        """The start class of one call, once its memory was found as it was left."""
        reply = self.worker.invoke(name, event or {})
        answer = self.assert_works(reply)
        self.assertEqual(answer["changed"], [], f"{name}: buffers that came back changed")
        return reply.headers["x-lambent-start"], answer


class SmallDevice(MovingTest):
    """Functions of 75 MiB each on a device of 256 MiB: what moves is the same as on a large one, and is copied and compared sooner."""
    flags = ("--concurrency", "2", "--context-memory", "4")
    held, device_mib, link = 70, 256, "host_to_device_gb_per_s = 10.0"

    @classmethod
    def setUpClass(cls):
        text = (PREFIX / "lib/emulated/presets/tiny.toml").read_text()
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as machine:
            machine.write(text.replace("memory_mib = 1024", f"memory_mib = {cls.device_mib}").replace("context_mib = 16", "context_mib = 4")
                          .replace(SmallDevice.link, cls.link))
            machine.flush()
            cls.gpu = "emulated:" + machine.name
            super().setUpClass()


# Waits beside the GPU, uses it, and tells the time that it has left.
PATIENT = """
import asyncio
import lambent_cuda as cuda

held = cuda.Device().buffer(64 << 20)

async def handler(event, context):
    await asyncio.sleep(event.get("sleep", 0))
    held.bytes()
    return context.get_remaining_time_in_millis()
"""
LARGE = """
import lambent_cuda as cuda

held = cuda.Device().buffer(180 << 20)

def handler(event, context):
    return held.size
"""


class Deadlines(SmallDevice):
    """64 MiB take 1.6 s to come back."""
    link = "host_to_device_gb_per_s = 0.04"

    def test_a_coroutine_has_its_whole_time_from_the_arrival_of_its_memory_on(self):
        self.names = ["patient", "large"]
        self.create_gpu("patient", PATIENT, gpu_memory="72MiB", tags={"lambent:http-concurrency": "2"}, timeout=2, memory=512)
        self.create_gpu("large", LARGE, gpu_memory="200MiB", memory=512)
        for name in self.names:
            self.assert_works(self.worker.invoke(name, {}))
        reply = self.worker.invoke("patient", {"sleep": 2.5})
        left_ms = self.assert_works(reply)
        self.assertEqual(reply.headers["x-lambent-start"], "gpu_cold")
        self.assertGreater(int(reply.headers["x-lambent-memory-us"]), 1_500_000)
        self.assertGreater(left_ms, 0, "its first deadline was over before")


class MemoryMoves(SmallDevice):

    def check_that_all_keep_their_memory(self, tags=None):
        self.create_holders(5, tags=tags)
        for name in self.names:
            self.assertEqual(self.call(name)[0], "cold")
        moved_before = self.moved_bytes("in")
        starts = []
        for round in (2, 3):
            for name in self.names:
                start, answer = self.call(name)
                starts.append(start)
                self.assertEqual(answer["calls"], round, f"{name} was started again")
        self.assertNotIn("cold", starts)
        self.assertIn("gpu_cold", starts)
        self.assertGreater(self.moved_bytes("in"), moved_before + self.held * MIB)
        self.assertLessEqual(self.device_memory_used(), self.device_mib * MIB)
        places = {each["function"]: each["device_memory_place"] for each in self.worker.sandboxes()}
        self.assertEqual(places[self.names[-1]], "in")
        self.assertIn("out", places.values())
        self.assertGreaterEqual(sum(float(line.split()[1]) for line in self.worker.metrics().splitlines()
                                    if line.startswith("lambent_moved_out_memory_bytes ")), self.held * MIB)
        # Called again at once, it is warm.
        self.assertEqual(self.call(self.names[-1])[0], "warm")

    def test_every_function_keeps_its_memory_and_none_is_started_twice(self):
        self.check_that_all_keep_their_memory()

    def test_so_it_is_with_managed_memory(self):
        self.check_that_all_keep_their_memory({"lambent:memory-mode": "uvm"})

    def test_many_clients_at_once(self):
        self.create_holders(5)
        failures = []

        def client(name):
            try:
                for _ in range(3):
                    self.call(name)
            except Exception as error:  # told below, in the test's own thread
                failures.append(error)
        clients = [threading.Thread(target=client, args=(name,)) for name in self.names]
        for each in clients:
            each.start()
        for each in clients:
            each.join()
        self.assertEqual(failures, [])

    def test_memory_that_must_stay_is_given_up_with_its_sandbox(self):
        self.create_holders(4, tags={"lambent:memory-mode": "off"})
        for name in self.names:
            self.call(name)
        again = [self.call(name) for name in self.names]
        self.assertIn("cold", [start for start, _ in again])
        self.assertNotIn("gpu_cold", [start for start, _ in again])
        self.assertIn(1, [answer["calls"] for _, answer in again], "none was started again")

    def test_a_crash_while_others_memory_is_out_frees_what_it_held(self):
        self.create_holders(4)
        for name in self.names:
            self.call(name)
        self.assert_function_error(self.worker.invoke(self.names[3], {"crash": True}), "Runtime.ExitError")
        for name in self.names[:3]:
            self.assertIn(self.call(name)[0], ("warm", "gpu_cold"))

    def test_programs_that_close_descriptors_of_which_they_know_nothing_keep_their_memory(self):
        self.create_holders(5)
        for name in self.names:
            self.call(name)
        closed = 0
        for round in range(2, 5):
            for name in self.names:
                answer = self.call(name, {"close": True})[1]
                self.assertEqual(answer["calls"], round, f"{name} was started again")
                closed += answer["closed"]
        self.assertGreaterEqual(closed, 15)
        self.assertGreater(self.moved_bytes("in"), 5 * self.held * MIB)
        self.assertLessEqual(self.device_memory_used(), self.device_mib * MIB)

    def test_a_removed_function_leaves_nothing_behind(self):
        before = self.steady_memory_used()
        self.create_holders(5)
        for name in self.names:
            self.call(name)
        for name in self.names:
            self.worker.delete(name)
        self.names = []
        self.assert_memory_comes_back_to(before)


# Keeps several pieces of memory and adds to the one that the call names: by copies, which reach it where it lies.
PIECES = """
import array, os
import lambent_cuda as cuda

PIECES, SIZE = 8, 8 << 20
WORDS = SIZE // 4
device = cuda.Device()
meant = [1000 * (i + 1) + int(os.environ["SEED"]) for i in range(PIECES)]
held = [device.buffer(array.array("I", [word]).tobytes() * WORDS) for word in meant]

def is_right(i):
    return held[i].bytes() == array.array("I", [meant[i]]).tobytes() * WORDS

def handler(event, context):
    piece = event.get("piece")
    if piece is None:
        return {"wrong": [i for i in range(PIECES) if not is_right(i)]}
    wrong = [] if is_right(piece) else [piece]
    meant[piece] += 1
    held[piece].write(array.array("I", [meant[piece]]).tobytes() * WORDS)
    return {"wrong": wrong}
"""


class WorkingSets(SmallDevice):
    """Functions of 64 MiB that use 8 of them, on a device of 256 MiB; the worker's option holds for those that do not say."""
    flags = (*SmallDevice.flags, "--working-set", "touched")

    def create_keepers(self, tags=None):
        self.names = [f"{self.id().rpartition('.')[2]}-{i}"[-60:] for i in range(5)]
        for i, name in enumerate(self.names):
            self.create_gpu(name, PIECES, gpu_memory="75MiB", memory=512, tags=tags, environment={"SEED": str(i)})

    def use(self, piece):
        """The bytes that came in while every function used this piece once."""
        before = self.moved_bytes("in")
        for name in self.names:
            answer = self.assert_works(self.worker.invoke(name, {} if piece is None else {"piece": piece}))
            self.assertEqual(answer["wrong"], [], f"{name}: pieces that came back changed")
        return self.moved_bytes("in") - before

    def test_what_was_not_used_stays_on_the_host_and_is_right_when_it_is_used(self):
        self.create_keepers()
        self.use(1)
        rounds = [self.use(1) for _ in range(6)]
        self.assertGreaterEqual(rounds[0], 64 * MIB, "all that was moved came in at first")
        self.assertLess(rounds[-1], rounds[0] / 4)
        for piece in (5, 1, 5, 0, 7):
            self.use(piece)
        self.use(None)

    def starts(self):
        return [self.worker.invoke(name, {"piece": 1}).headers["x-lambent-start"] for name in self.names]

    def test_more_of_them_stay_warm(self):
        self.create_keepers()
        for _ in range(8):
            self.use(1)
        self.assertEqual(self.starts(), ["warm"] * 5)
        self.use(None)

    def test_a_function_can_have_all_of_it(self):
        self.create_keepers({"lambent:working-set": "whole"})
        self.use(1)
        rounds = [self.use(1) for _ in range(5)]
        self.assertGreaterEqual(rounds[-1], 64 * MIB)
        self.assertIn("gpu_cold", self.starts())
        self.use(None)


class ContextsLeave(SmallDevice):
    """What stays of a function, its context, is large here: after four of them the device is full."""
    flags = ("--concurrency", "1", "--context-memory", "55")

    def starts_of_two_rounds(self, tags):
        self.create_holders(6, mib=5, tags=tags)
        for name in self.names:
            self.call(name)
        return [self.call(name) for name in self.names]

    def test_a_checkpoint_takes_contexts_off_too(self):
        again = self.starts_of_two_rounds({"lambent:checkpoint": "true"})
        self.assertEqual([answer["calls"] for _, answer in again], [2] * 6, again)

    def test_without_one_sandboxes_are_given_up(self):
        again = self.starts_of_two_rounds({})
        self.assertIn("cold", [start for start, _ in again])


class LittleHostMemory(SmallDevice):
    flags = (*SmallDevice.flags, "--host-memory", "80M")

    def test_what_the_host_has_no_room_for_is_evicted(self):
        self.create_holders(5)
        for _ in range(2):
            for name in self.names:
                self.call(name)
        self.assertGreater(self.moved_bytes("out"), 0)


class NoHostMemory(SmallDevice):
    flags = (*SmallDevice.flags, "--host-memory", "0")

    def test_nothing_moves(self):
        self.create_holders(4)
        for _ in range(2):
            for name in self.names:
                self.assertIn(self.call(name)[0], ("cold", "warm"))
        self.assertEqual(self.moved_bytes("out"), 0)

    def test_a_bad_amount_is_refused(self):
        with self.assertRaisesRegex(AssertionError, "--host-memory"):
            Worker("--host-memory", "lots")


class IntegratedGpu(MovingTest):
    """A device whose memory is the host's own; three functions of 41 GiB do not fit into its 121."""
    gpu = "emulated:gb10"

    def test_nothing_moves_and_everything_else_holds(self):
        limit = 42000
        self.names = [f"integrated-{i}" for i in range(3)]
        for i, name in enumerate(self.names):
            self.create_gpu(name, HOLDER, gpu_memory=f"{limit}MiB", memory=512,
                            environment={"HOLD_MIB": "32", "SEED": str(1000 * i)})
        starts = []
        for _ in range(2):
            for name in self.names:
                start, answer = self.call(name)
                starts.append(start)
                self.assertLessEqual(answer["free"], (limit - 32) * MIB)
        self.assertEqual(starts[:3], ["cold"] * 3)
        self.assertIn("cold", starts[3:], "one has made way for another")
        self.assertNotIn("gpu_cold", starts)
        self.assertEqual(self.moved_bytes("out"), 0)
        self.assertIn("gpu_memory_stays", self.worker.log())
        total = self.metric("lambent_gpu_memory_bytes", 'kind="total"')
        self.assertEqual(total, 124610 * MIB, "which NVML does not tell")


if __name__ == "__main__":
    unittest.main()
