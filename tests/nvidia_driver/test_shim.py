"""The shims before NVIDIA's own driver library, and the emulated driver beside it. Without a device the library loads, answers questions of
version, lookup and export tables, and refuses the rest; a program must not see whether a shim stands between.
"""
import re
import subprocess
import tempfile
import unittest

import libraries
from libraries import DRIVER, NVML, SHIM, SHIM_NVML, SMI, ask, exports_of, names_by_offset

PER_THREAD = 2  # CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
VERSIONS = (2000, 2020, 2030, 3000, 3010, 3020, 4000, 4010, 5000, 5050, 6000, 6050, 7000, 7050, 8000, 9000, 9020, 10000, 10020, 11000, 11010, 11020,
            11030, 11040, 11050, 11060, 11070, 11080, 12000, 12010, 12020)
# Those that NVIDIA's runtime and libraries ask for, and one that nobody has.
TABLES = ("6bd5fb6c-5bf4-e74a-8987-d93912fd9df9", "42d85a81-23f6-cb47-8298-f6e78a3aecdc", "a094798c-2e74-2e74-93f2-0800200c0a66",
          "c693336e-1121-df11-a8c3-68f355d89593", "d4082055-bde6-704b-8d34-ba123c66e1f2", "21318c60-9714-3248-8ca6-41ff7324c8f2",
          "00010203-0405-0607-0809-0a0b0c0d0e0f")
NO_DEVICE = 100


def treatments():
    """{symbol: hooked, gated or forwarded}; what a pattern covers is forwarded."""
    lines = (line.split("#")[0].split() for line in (libraries.SOURCE / "gpu/shim/coverage.txt").read_text().splitlines())
    return {words[0]: words[1] for words in lines if len(words) > 1}


def base_names(symbols):
    return sorted({re.sub(r"_v\d+$", "", re.sub(r"_pt(sz|ds)$", "", symbol)) for symbol in symbols})


class NvidiaDriverTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        libraries.need_driver()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


class Exports(NvidiaDriverTest):
    def test_every_function_of_the_driver_is_one_of_the_shim_and_of_the_stand_ins(self):
        theirs = set(exports_of(DRIVER))
        for ours in (SHIM, libraries.EMULATED, libraries.PREFIX / "lib/forward/libcuda.so.1"):
            self.assertEqual(sorted(theirs - set(exports_of(ours))), [], ours)

    def test_every_function_of_nvml_is_one_of_the_shim(self):
        self.assertEqual(sorted(set(exports_of(NVML)) - set(exports_of(SHIM_NVML))), [])

    def test_its_variables_are_a_debuggers_alone(self):
        self.assertEqual([name for name in exports_of(DRIVER, "BDRV") if not name.startswith("cudbg")], [])


class Lookup(NvidiaDriverTest):
    def matrix(self, kind):
        return ask(kind, self.folder, "lookups", names=[*base_names(exports_of(DRIVER)), "cuNothingOfTheKind", "cuMemAlloc_v2", ""],
                   versions=VERSIONS, flags=(0, 1, PER_THREAD))

    def test_cu_get_proc_address_finds_what_the_driver_finds_and_hooks_of_it(self):
        bare, shimmed, known = self.matrix("bare"), self.matrix("shim"), treatments()
        theirs, ours = names_by_offset(DRIVER), names_by_offset(SHIM)
        hooks = 0
        for question, (result, status, place, older, first) in bare.items():
            told = shimmed[question]
            self.assertEqual([told[0], told[1], told[3]], [result, status, older], question)
            for before, after in ((place, told[2]), (first, told[4])):
                names = theirs.get(before[1], set()) if before else set()
                hooked = {name for name in names if known.get(name) in ("hooked", "gated")}
                if not hooked:
                    self.assertEqual(after, before, question)
                    continue
                self.assertEqual(after[0], SHIM.name, question)
                self.assertTrue(ours[after[1]] & hooked, question)
                hooks += 1
        self.assertGreater(hooks, 10_000)

    def test_the_emulated_driver_answers_with_the_same_names(self):
        bare, emulated = self.matrix("bare"), self.matrix("emulated")
        theirs, ours = names_by_offset(DRIVER), names_by_offset(libraries.EMULATED)
        for question, (result, status, place, older, _) in bare.items():
            told = emulated[question]
            self.assertEqual([told[0], told[1], told[3]], [result, status, older], question)
            if place:
                self.assertTrue(theirs[place[1]] & ours[told[2][1]], question)

    def test_every_way_to_a_symbol_leads_to_the_shim(self):
        names = sorted(exports_of(DRIVER))
        ours = exports_of(SHIM)
        for way, places in ask("shim", self.folder, "symbols", names=names, path=str(DRIVER)).items():
            for name in names:
                self.assertEqual(places[name], [SHIM.name, ours[name]], f"{name} by {way}")

    def test_export_tables_are_the_drivers_own(self):
        bare = ask("bare", self.folder, "tables", ids=TABLES, words=64)
        self.assertEqual(ask("shim", self.folder, "tables", ids=TABLES, words=64), bare)
        self.assertEqual([result for result, _, _ in bare.values()], [0] * (len(TABLES) - 1) + [1])
        self.assertGreater(sum(len(places) for _, _, places in bare.values()), 50)


class Calls(NvidiaDriverTest):
    def test_before_during_and_after_a_start_that_fails_every_call_answers_as_it_does_alone(self):
        for init in (-1, 0, 1):
            bare = ask("bare", self.folder, "calls", init=init)
            self.assertEqual(ask("shim", self.folder, "calls", init=init), bare)
        self.assertIn(["cuInit", NO_DEVICE], ask("bare", self.folder, "calls", init=0))

    def test_nvml_answers_as_it_does_alone(self):
        self.assertEqual(ask("shim", self.folder, "nvml"), ask("bare", self.folder, "nvml"))

    def test_nvidia_smi_says_what_it_says_alone(self):
        told = [subprocess.run([SMI], env=libraries.environment_of(kind, self.folder), capture_output=True, text=True, timeout=60)
                for kind in ("bare", "shim")]
        self.assertEqual((told[1].returncode, told[1].stdout), (told[0].returncode, told[0].stdout))
        self.assertIn("NVIDIA driver", told[0].stdout)


class UnderLambentShim(NvidiaDriverTest):
    def run_shim(self, mode):
        return subprocess.run([libraries.PREFIX / "bin/lambent", "shim", "--driver", DRIVER, "--memory", "1G", "--mode", mode, "--", "python3",
                               "-B", libraries.HERE / "ask_driver.py", "calls"], input='{"init": 0}', text=True, capture_output=True, timeout=60)

    def test_a_program_is_refused_as_without_a_device_and_nothing_stays_counted(self):
        for mode in ("off", "vmm", "uvm"):
            done = self.run_shim(mode)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn('["cuInit", 100]', done.stdout)
            self.assertIn('["cuMemAlloc_v2", 3]', done.stdout)


if __name__ == "__main__":
    unittest.main()
