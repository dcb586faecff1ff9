#!/usr/bin/env python3
"""The check of locks must be able to fail: it is run on small trees with one fault each."""
import pathlib
import shutil
import tempfile
import unittest

import check_locks as subject

HEADER = """#pragma once
#include "core/base/mutex.h"
class Counter {
 public:
  void add();

 private:
  lambent::Mutex mutex_;
  int count_ GUARDED_BY(mutex_) = 0;
};
"""
SOURCE = '#include "f/m/counter.h"\nvoid Counter::add() {\n  %s\n}\n'


class LocksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write(subject.WRAPPER, (subject.ROOT / subject.WRAPPER).read_text())

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_a_mutex_without_annotations_is_counted(self):
        for line in ("std::mutex mutex_;", "  mutable std::mutex mutex_;", "pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;",
                     "  static std::mutex mutex;"):
            with self.subTest(line):
                self.write("src/f/m/a.h", line + "\n")
                self.assertEqual(subject.declared(self.root), {"src/f/m": 1})
        self.write("src/f/m/a.h", "// std::mutex mutex_;\nMutex mutex_;\nvoid f(std::mutex& mutex);\n")
        self.assertEqual(subject.declared(self.root), {})

    def test_numbers_may_only_fall(self):
        self.assertEqual(list(subject.offences({"src/f/m": 2}, {"src/f/m": 2})), [])
        self.assertIn("at most 1", list(subject.offences({"src/f/m": 2}, {"src/f/m": 1}))[0])
        self.assertIn("lower its number", list(subject.offences({"src/f/m": 1}, {"src/f/m": 2}))[0])
        self.assertIn("take its line out", list(subject.offences({}, {"src/f/m": 2}))[0])

    @unittest.skipUnless(shutil.which("clang++"), "needs clang++, which ./dev test installs")
    def test_what_is_touched_without_its_mutex_is_found(self):
        self.write("src/f/m/counter.h", HEADER)
        self.addCleanup(setattr, subject, "ROOT", subject.ROOT)
        subject.ROOT = self.root
        for body, fails in (("const lambent::MutexLock lock(mutex_); ++count_;", False), ("++count_;", True),
                            ("lambent::MutexLock lock(mutex_); lock.unlock(); ++count_;", True)):
            with self.subTest(body):
                self.write("src/f/m/counter.cc", SOURCE % body)
                self.assertEqual([str(each) for each in subject.sources(self.root)], ["src/f/m/counter.cc"])
                self.assertEqual("thread-safety" in subject.check("src/f/m/counter.cc"), fails)


if __name__ == "__main__":
    unittest.main()
