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


if __name__ == "__main__":
    unittest.main()
