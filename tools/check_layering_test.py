#!/usr/bin/env python3
"""The layering check must be able to fail: it is run on small houses with one fault each."""
import pathlib
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

    def house(self, rooms, **files):
        (self.root / "src/rooms.cmake").write_text(rooms)
        for name, text in files.items():
            room = name.split("__")[0]
            path = self.root / "src" / room / (name.split("__")[1] + ".cc")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return subject.main()

    def test_a_declared_include_passes(self):
        self.assertEqual(self.house("room(a)\nroom(b DEPENDS a)\n", b__x='#include "a/y.h"\n', a__y=""), 0)

    def test_an_undeclared_include_fails(self):
        self.assertEqual(self.house("room(a)\nroom(b)\n", b__x='#include "a/y.h"\n', a__y=""), 1)

    def test_a_cycle_fails(self):
        self.assertEqual(self.house("room(a DEPENDS b)\nroom(b DEPENDS a)\n", a__x="", b__x=""), 1)

    def test_the_environment_is_read_in_bin_only(self):
        self.assertEqual(self.house("room(a)\n", a__x='const char* p = getenv("HOME");\n'), 1)

    def test_a_clock_in_a_pure_room_fails(self):
        self.assertEqual(self.house("room(dispatch)\n", dispatch__x="auto t = std::chrono::steady_clock::now();\n"), 1)

    def test_system_calls_in_a_pure_room_fail(self):
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
                self.assertEqual(self.house("room(protocol)\n", protocol__x=line + "\n"), 1)

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
                self.assertEqual(self.house("room(protocol)\n", protocol__x=line + "\n"), 0)

    def test_a_room_that_is_not_pure_may_open_files(self):
        self.assertEqual(self.house("room(ledger)\n", ledger__x="int fd = open(path, O_RDONLY);\n"), 0)


if __name__ == "__main__":
    unittest.main()
