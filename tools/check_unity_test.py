"""The check of batches must be able to fail."""
import json
import pathlib
import shutil
import tempfile
import unittest

from check_unity import commands_of, compile_together


class Batches(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def sources(self, *texts):
        paths = [self.folder / f"{index}.cc" for index in range(len(texts))]
        for path, text in zip(paths, texts):
            path.write_text(text)
        return paths

    def words(self, *texts):
        return compile_together("c++ -O2 -MD -MT a.o -MF a.d -o a.o -c a.cc", self.folder, self.sources(*texts))

    def test_sources_with_helpers_of_their_own_compile_as_one(self):
        self.assertEqual(self.words("namespace { int a() { return 1; } } int b() { return a(); }",
                                    "namespace { int c() { return 1; } } int d() { return c(); }"), "")

    def test_helpers_of_one_name_are_told_with_their_place(self):
        words = self.words("namespace { int a() { return 1; } } int b() { return a(); }",
                           "namespace { int a() { return 2; } } int d() { return a(); }")
        self.assertIn("1.cc:1:17: error: redefinition", words)

    def test_each_library_has_the_command_of_one_of_its_sources(self):
        entries = [{"command": f"c++ -o {path} -c x.cc", "directory": "/b"} for path in (
            "CMakeFiles/lambent_base.dir/src/core/base/fd.cc.o", "CMakeFiles/lambent_base.dir/src/core/base/log.cc.o",
            "CMakeFiles/lambent_http.dir/Unity/unity_0_cxx.cxx.o", "CMakeFiles/base_test.dir/src/core/base/fd_test.cc.o")]
        commands = commands_of(json.dumps(entries))
        self.assertEqual(sorted(commands), ["base", "http"])
        self.assertIn("fd.cc.o", commands["base"][0])


if __name__ == "__main__":
    unittest.main()
