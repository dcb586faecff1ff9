"""What ./dev strangers says of programs: its judgements, and a made-up checkout of programs that are right, wrong, refused and endless."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import build
import judge
import programs
import strangers

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = pathlib.Path(os.environ["LAMBENT_PREFIX"])
TOOLKIT = pathlib.Path(os.environ.get("CUDA_TOOLKIT", "/usr/local/cuda"))

PROGRAM = """#include <cstdio>
#include <cstring>
__global__ void twice(int* x) { x[threadIdx.x] = FACTOR * threadIdx.x; }
int main(int count, char** words) {
  int host[32], *x;
  for (int round = 0; round < 300; ++round) {
    cudaMalloc(&x, sizeof host);
    cudaMemset(x, 0, sizeof host);
    twice<<<1, 32>>>(x);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    cudaFree(x);
  }
  bool right = true;
  for (int i = 0; i < 32; ++i) right = right && host[i] == 2 * i;
  END
}
"""
CMAKE = "project(NAME)\n# find_package(Vulkan)\nfind_package(CUDAToolkit REQUIRED)\nMORE\nadd_executable(NAME NAME.cu)\n"
JUDGED = 'std::printf("%s\\n", right ? "Test passed" : "Test FAILED"); return 0;'
MADE = {  # name: (factor, how it ends, more of its CMake file)
    "right": ("2", JUDGED, ""),
    "wrong": ("3", JUDGED, ""),
    "silent": ("2", 'std::printf("%d %d\\n", host[1], host[31]); return 0;', ""),
    "broken": ("2", 'std::fprintf(stderr, "error: no luck\\n"); return 3;', ""),
    "endless": ("2", "for (volatile int i = 0;;) i = i + 1;", ""),
    "refused": ('2; asm volatile("barrier.cluster.arrive;\\n\\tbarrier.cluster.wait;"); x[0] += 0', JUDGED, ""),
    "drawn": ("2", JUDGED, "find_package(OpenGL)"),
}


class Judgements(unittest.TestCase):
    def test_numbers_may_differ_by_their_tolerance_and_words_may_not(self):
        self.assertIsNone(judge.same(["a 1.0000 2"], ["a 1.0001 2"], 1e-3))
        self.assertIn("line 1", judge.same(["a 1.0 2"], ["a 1.1 2"], 1e-3))
        self.assertIn("line 2", judge.same(["x", "a 1"], ["x", "b 1"], 1e-3))
        self.assertIsNone(judge.same(["86 3"], ["84 3"], apart=2))
        self.assertIn("line 1", judge.same(["86 3"], ["83 3"], apart=2))
        self.assertIn("1 lines beside 2", judge.same(["x"], ["x", "y"]))
        self.assertIn("line 1", judge.same(["nan"], ["1"], 1e9))

    def test_lines_with_times_and_rates_are_not_compared(self):
        self.assertEqual(judge.comparable("sum 3\n\ntook 4.2 ms\n 7 GB/s\nat 0xfe01\n"), ["sum 3"])
        self.assertEqual(judge.comparable("XE: 1\nother\n", keep="^XE"), ["XE: 1"])
        self.assertEqual(judge.comparable("b --> 2\na --> 1\n", extract="--> (.)"), ["1", "2"])

    def test_a_programs_own_words_count(self):
        plain = programs.Program("p", "samples", HERE, [])
        self.assertEqual(judge.own_check("Test passed\n", plain)[0], True)
        self.assertEqual(judge.own_check("Test FAILED, not passed\n", plain)[0], False)
        self.assertEqual(judge.own_check("42\n", plain)[0], None)
        strict = programs.Program("p", "samples", HERE, [], says="^fine$", never="mismatch")
        self.assertEqual(judge.own_check("fine\n", strict)[0], True)
        self.assertEqual(judge.own_check("fine\nmismatch at 3\n", strict)[0], False)
        self.assertEqual(judge.own_check("passed\n", strict)[0], False)

    def test_the_limit_is_of_work_and_a_program_that_only_waits_is_stopped_later(self):
        runner = strangers.Runner.__new__(strangers.Runner)
        runner.options = argparse.Namespace(limit=1)
        for code, status in (("import time; time.sleep(1.5)", 0), ("import time; time.sleep(100)", None), ("while True: pass", None)):
            self.assertEqual(runner.run([sys.executable, "-c", code], HERE, dict(os.environ))[0], status, code)
        self.assertGreaterEqual(runner.worked_s, 1)

    def test_a_program_of_hecbench_is_what_its_make_file_does(self):
        with tempfile.TemporaryDirectory(prefix="lambent-strangers-") as name:
            folder = pathlib.Path(name) / "src/twice-cuda"
            folder.mkdir(parents=True)
            (folder.parent / "shared-cuda").mkdir()
            (folder / "main.cu").write_text('int main() { printf("Usage: %s <size> <repeat>\\n"); }')
            (folder / "Makefile").write_text("""CFLAGS = -std=c++17 -arch=$(ARCH) -DFAST -I../shared-cuda
main: main.o tools.o
\tnvcc $(CFLAGS) main.o tools.o -o $@ -lm
%.o: %.cu
\tnvcc $(CFLAGS) -c $< -o $@
tools.o: tools.cpp
\tg++ -c $< -o $@
run: main
\t./main 512 100
""")
            (folder / "tools.cpp").write_text("")
            found = programs.hecbench(pathlib.Path(name))
            self.assertEqual([program.name for program in found], ["twice-cuda"])
            program = found[0]
            self.assertEqual(program.sources, ["main.cu", "tools.cpp"])
            self.assertEqual(program.flags, ["-I.", "-DFAST", "-I../shared-cuda"])
            self.assertEqual(program.arguments, ["512", "1"])
            self.assertEqual(program.neighbours, ["shared-cuda"])
            self.assertEqual(program.not_tried, "")
            (folder / "Makefile").write_text((folder / "Makefile").read_text().replace("-lm", "-lcublas"))
            self.assertEqual(programs.hecbench(pathlib.Path(name))[0].not_tried, "needs cublas")

    def test_the_line_of_an_error_names_no_folder_of_this_machine(self):
        self.assertEqual(build.first_error("note\n/x/y/a.cu:3: error: no\n", [pathlib.Path("/x/y")]), "a.cu:3: error: no")
        said = "u.h:19:1: error: static_assert failed due to requirement 'never<T>' \"tex2D is not supported in host kernels: there are none\""
        self.assertEqual(build.first_error(said, []), "tex2D is not supported in host kernels: there are none")
        self.assertIn("undefined reference", build.first_error("a.o: undefined reference to `f'\ncollect2: error: ld returned 1\n", []))


@unittest.skipUnless((TOOLKIT / "bin/nvcc").exists(), f"no nvcc in {TOOLKIT}")
class Checkout(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="lambent-strangers-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for name, (factor, end, more) in MADE.items():
            place = cls.folder / "checkout/Samples/0_Introduction" / name
            place.mkdir(parents=True)
            (place / f"{name}.cu").write_text(PROGRAM.replace("FACTOR", factor).replace("END", end))
            (place / "CMakeLists.txt").write_text(CMAKE.replace("NAME", name).replace("MORE", more))
        (cls.folder / "checkout/Common").mkdir()
        cls.done = cls.run_command("--samples", cls.folder / "checkout")
        cls.rows = {row["name"]: row for row in json.loads((cls.folder / "scratch/strangers.json").read_text())["rows"]}

    @classmethod
    def run_command(cls, *words):
        return subprocess.run([sys.executable, "-B", HERE / "strangers.py", "--prefix", PREFIX, "--toolkit", TOOLKIT, "--scratch",
                               cls.folder / "scratch", "--limit", "12", *words], capture_output=True, text=True)

    def test_a_right_program_is_right_bare_and_while_its_memory_moves(self):
        row = self.rows["right"]
        self.assertEqual((row["bare"], row["moving"], row["checked_by"]), ("right", "right", "its own check"), row)
        self.assertGreater(row["moves"], 0)

    def test_one_without_a_check_has_to_say_the_same(self):
        self.assertEqual((self.rows["silent"]["bare"], self.rows["silent"]["moving"]), ("ends", "same"), self.rows["silent"])

    def test_what_goes_wrong_is_told_with_the_reason(self):
        for name, word, why in (("wrong", "wrong", "FAILED"), ("broken", "ended", "no luck"), ("endless", "no end", "s of work"),
                                ("refused", "not built", "inline PTX"), ("drawn", "not tried", "OpenGL")):
            self.assertEqual(self.rows[name]["bare"], word, self.rows[name])
            self.assertIn(why, self.rows[name]["why"])
        self.assertEqual(self.done.returncode, 1, self.done.stdout + self.done.stderr)

    def test_a_run_of_some_keeps_what_was_told_of_others(self):
        # In a folder of its own, for the tests are in no order.
        results = self.folder / "results"
        results.mkdir()
        (results / "strangers.json").write_text(json.dumps({"rows": list(self.rows.values())}))
        done = self.run_command("--samples", self.folder / "checkout", "--only", "drawn", "--out", results)
        rows = json.loads((results / "strangers.json").read_text())["rows"]
        self.assertEqual({row["name"]: row for row in rows}, self.rows, done.stderr)

    def test_the_table_has_a_row_for_each(self):
        table = (self.folder / "scratch/strangers.md").read_text()
        for name in MADE:
            self.assertIn("Not tried, needs OpenGL: drawn." if name == "drawn" else f"| {name} | ", table)

    def test_what_is_no_checkout_is_refused(self):
        for words, why in (((), "name a checkout"), (("--samples", self.folder), "is no checkout of samples"),
                           (("--rodinia", self.folder / "checkout"), "is no checkout of rodinia"),
                           (("--samples", self.folder / "checkout", "--only", "missing"), "no such program: missing")):
            done = self.run_command(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
