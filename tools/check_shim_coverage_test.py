"""The coverage check must be able to fail."""
import unittest

from check_shim_coverage import problems_of

SYMBOLS = "cuInit\ncuMemAlloc_v2\ncuMemcpy\ncuTexRefSetFlags\n"
GOOD = "cuMemAlloc_v2 hooked counted\ncuMemcpy gated copies\ncuInit forwarded nothing\ncuTexRef* forwarded nothing\n"
GATED = "cuMemcpy: Address, Address, size_t\n"


class CoverageCheck(unittest.TestCase):
    def test_is_content_when_all_is_classified(self):
        self.assertEqual(problems_of(SYMBOLS, GOOD), [])

    def test_fails_on_an_allocation_that_nobody_classified(self):
        for name in ("cuMemAllocSomewhere", "cuMemoryArrayCreate_v9", "cuCreateMem", "cuMemGetInfo_v3"):
            self.assertEqual(len(problems_of(SYMBOLS + name, GOOD)), 1, name)

    def test_fails_on_anything_that_could_touch_memory_unless_its_full_name_is_written_down(self):
        for name in ("cuLaunchKernel_v9", "cuMemcpyToMoon", "cuMemsetD64", "cuGraphLaunch_v2", "cuGraphAddMoreNode",
                     "cuIpcOpenMemHandle_v3", "cuMemHostRegister_v3", "cuArrayCreate_v3", "cuMemGetInfo_v3",
                     "cuStreamWriteValue128", "cuMemPrefetchAsync_v3", "cuModuleLoadSlowly", "cuCtxCreate_v5",
                     "cuExternalMemoryGetMore", "cuPointerGetMore", "cuMemPoolGrow"):
            self.assertEqual(len(problems_of(SYMBOLS + name, GOOD + "cu* forwarded all the rest\n")), 1, name)

    def test_a_pattern_takes_what_is_harmless_and_nothing_but_forwards(self):
        self.assertEqual(len(problems_of(SYMBOLS + "cuTexRefSetMood", GOOD)), 0)
        self.assertEqual(len(problems_of(SYMBOLS + "cuMoodGet", GOOD)), 1)
        self.assertEqual(len(problems_of(SYMBOLS, GOOD + "cuTexRefS* gated waits\n")), 1)

    def test_fails_if_the_two_tables_disagree_about_the_gate(self):
        self.assertEqual(problems_of(SYMBOLS, GOOD, None, GATED), [])
        self.assertEqual(len(problems_of(SYMBOLS, GOOD, None, "")), 1)
        self.assertEqual(len(problems_of(SYMBOLS, GOOD, None, GATED + "cuInit: unsigned\n")), 1)

    def test_fails_on_a_row_without_reason_or_symbol_and_on_one_given_twice(self):
        self.assertEqual(len(problems_of(SYMBOLS, GOOD.replace(" counted", ""))), 1)
        self.assertEqual(len(problems_of(SYMBOLS, GOOD + "cuMemGone hooked it went\n")), 1)
        self.assertEqual(len(problems_of(SYMBOLS, GOOD + "cuInit forwarded nothing\n")), 2)

    def test_fails_on_what_nvml_could_say_of_memory(self):
        names = "nvmlInit_v2\nnvmlDeviceGetMemoryInfo\n"
        rows = "nvmlDeviceGetMemoryInfo hooked tells the limit\nnvml* forwarded says nothing of memory\n"
        self.assertEqual(problems_of(names, rows), [])
        for name in ("nvmlDeviceGetMemoryInfo_v3", "nvmlDeviceGetComputeRunningProcesses_v4", "nvmlDeviceGetAttributes_v3",
                     "nvmlVgpuTypeGetFramebufferSize_v2", "nvmlDeviceGetRunningProcessDetailList_v2"):
            self.assertEqual(len(problems_of(names + name, rows)), 1, name)

    def test_fails_on_exports_that_are_missing_or_too_many(self):
        names = set(SYMBOLS.split())
        self.assertEqual(problems_of(SYMBOLS, GOOD, names | {"dlopen"}), [])
        self.assertEqual(len(problems_of(SYMBOLS, GOOD, names - {"cuInit"})), 1)
        self.assertEqual(len(problems_of(SYMBOLS, GOOD, names | {"helper"})), 1)


if __name__ == "__main__":
    unittest.main()
