#!/usr/bin/env python3
"""The layering check must be able to fail: it is run on small trees with one fault each."""
import contextlib
import io
import pathlib
import re
import tempfile
import unittest

import check_layering as subject


class LayeringTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        subject.ROOT, subject.SOURCE = self.root, self.root / "src"
        (self.root / "src").mkdir()

    def tearDown(self):
        self.folder.cleanup()

    def layout(self, lines, **files):
        """The check's exit status for files named FLOOR__MODULE__FILE; every module of `lines` gets a folder."""
        (self.root / "src/modules.cmake").write_text(lines)
        floor = None
        for kind, name in re.findall(r"^(floor|module)\((\w+)", lines, re.MULTILINE):
            if kind == "floor":
                floor = name
            elif floor:
                (self.root / "src" / floor / name).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = self.root / "src" / (name.replace("__", "/") + ".cc")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = subject.main()
        self.output = output.getvalue()
        return status

    def test_a_declared_include_passes(self):
        self.assertEqual(self.layout("floor(f)\nmodule(a)\nmodule(b DEPENDS a)\n", f__b__x='#include "f/a/y.h"\n', f__a__y=""), 0)

    def test_an_undeclared_include_fails(self):
        self.assertEqual(self.layout("floor(f)\nmodule(a)\nmodule(b)\n", f__b__x='#include "f/a/y.h"\n', f__a__y=""), 1)
        self.assertIn("module b may not use a", self.output)

    def test_only_tests_include_what_tests_use(self):
        lines = "floor(f)\nmodule(a)\nmodule(b TEST_USES a)\n"
        self.assertEqual(self.layout(lines, f__b__x_test='#include "f/a/y.h"\n', f__b__testing__y='#include "f/a/y.h"\n'), 0)
        self.assertEqual(self.layout(lines, f__b__x='#include "f/a/y.h"\n'), 1)

    def test_an_include_names_the_floor_and_a_module_that_is_there(self):
        lines = "floor(f)\nmodule(a)\nmodule(b DEPENDS a)\n"
        self.assertEqual(self.layout(lines, f__b__x='#include "a/y.h"\n'), 1)
        self.assertEqual(self.layout(lines, f__b__x='#include "f/c/y.h"\n'), 1)
        self.assertEqual(self.layout(lines, f__b__x='#include "bin/y.h"\n'), 1)

    def test_a_floor_is_used_only_where_its_line_says_so(self):
        two = "floor(f)\nmodule(a)\nmodule(c)\nfloor(g USES {})\nmodule(b DEPENDS a)\n"
        self.assertEqual(self.layout(two.format("f")), 0)
        self.assertEqual(self.layout(two.format("f/a")), 0)
        self.assertEqual(self.layout(two.format("f/c")), 1)
        self.assertIn("b of floor g depends on a of floor f", self.output)
        self.assertEqual(self.layout(two.replace(" USES {}", "")), 1)

    def test_a_floor_uses_only_what_stands_above_it(self):
        self.assertEqual(self.layout("floor(f USES g)\nmodule(a)\nfloor(g)\nmodule(b)\n"), 1)
        self.assertEqual(self.layout("floor(f)\nmodule(a)\nfloor(g USES f/b)\nmodule(b)\n"), 1)

    def test_a_module_without_a_floor_or_a_folder_fails(self):
        self.assertEqual(self.layout("module(a)\n"), 1)
        (self.root / "src/modules.cmake").write_text("floor(f)\nmodule(z)\n")
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(subject.main(), 1)

    def test_a_folder_without_a_line_fails(self):
        self.assertEqual(self.layout("floor(f)\nmodule(a)\n", f__b__x=""), 1)
        self.assertEqual(self.layout("floor(f)\nmodule(a)\n", g__a__x=""), 1)

    def test_a_cycle_fails(self):
        self.assertEqual(self.layout("floor(f)\nmodule(a DEPENDS b)\nmodule(b DEPENDS a)\n"), 1)

    def test_a_dependency_that_is_no_module_fails(self):
        self.assertEqual(self.layout("floor(f)\nmodule(a DEPENDS b)\n"), 1)

    def test_the_environment_is_read_in_bin_only(self):
        self.assertEqual(self.layout("floor(f)\nmodule(a)\n", f__a__x='const char* p = getenv("HOME");\n'), 1)

    def test_a_clock_in_a_pure_module_fails(self):
        self.assertEqual(self.layout("floor(f)\nmodule(protocol)\n", f__protocol__x="auto t = std::chrono::steady_clock::now();\n"), 1)

    def test_system_calls_in_a_pure_module_fail(self):
        for line in (
            "int fd = open(path, O_RDONLY);",
            "return ::open(path, O_RDONLY);",
            "if (close(fd) != 0) return;",
            "(void)fcntl(fd, F_SETLK, &lock);",
            "return pread(fd, data, size, 0);",
            "::close(fd);",
            "std::ifstream file(path);",
            "const pid_t child = fork();",
        ):
            with self.subTest(line):
                self.assertEqual(self.layout("floor(f)\nmodule(protocol)\n", f__protocol__x=line + "\n"), 1)

    def test_names_that_only_look_like_system_calls_pass(self):
        for line in (
            "table.unlink(slot);",
            "void unlink(Slot slot);",
            "void Table::unlink(Slot slot) {",
            "ASSIGN_OR_RETURN(Trace trace, read());",
            "reader->close(1);",
            "// open(path) is not called here",
            'const char* text = "open(path)";',
            "auto reopened = reopen(path);",
        ):
            with self.subTest(line):
                self.assertEqual(self.layout("floor(f)\nmodule(protocol)\n", f__protocol__x=line + "\n"), 0)

    def test_a_module_that_is_not_pure_may_open_files(self):
        self.assertEqual(self.layout("floor(f)\nmodule(ledger)\n", f__ledger__x="int fd = open(path, O_RDONLY);\n"), 0)

    def test_the_floor_that_decides_has_no_clock_and_no_lock(self):
        lines = "floor(decide)\nmodule(a)\n"
        for line in ("auto now = std::chrono::steady_clock::now();", "Mutex mutex_;", "MutexLock lock(mutex_);", "int fd = open(path, 0);"):
            with self.subTest(line=line):
                self.assertEqual(self.layout(lines, decide__a__x=line), 1)
                self.assertIn("a is pure", self.output)
        self.assertEqual(self.layout(lines, decide__a__x="int now = 0;", decide__a__x_test="Mutex mutex_;"), 0)

    def test_other_floors_have_locks(self):
        self.assertEqual(self.layout("floor(f)\nmodule(a)\n", f__a__x="Mutex mutex_;"), 0)

    def test_names_of_the_check_itself_exist(self):
        self.layout("floor(decide)\nmodule(a)\n")
        with contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(subject.main(own_lists=True), 1)
        self.assertIn("there is no protocol", output.getvalue())


if __name__ == "__main__":
    unittest.main()
