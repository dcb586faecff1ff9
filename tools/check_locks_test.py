#!/usr/bin/env python3
"""The check of locks must be able to fail: it is run on small trees with one fault each."""
import pathlib
import shutil
import subprocess
import sys
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
PLAIN = HEADER.replace("base/mutex.h", "base/plain_mutex.h").replace("Mutex", "PlainMutex")
SOURCE = '#include "f/m/counter.h"\nvoid Counter::add() {\n  %s\n}\n'


class LocksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for header in (*subject.WRAPPERS, "src/core/base/thread_annotations.h"):
            self.write(header, (subject.ROOT / header).read_text())

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
                self.assertEqual("thread-safety" in subject.check(pathlib.Path("src/f/m/counter.cc")), fails)

    @unittest.skipUnless(shutil.which("clang++"), "needs clang++, which ./dev test installs")
    def test_a_plain_mutex_is_checked_like_the_other(self):
        self.write("src/f/m/counter.h", PLAIN)
        self.addCleanup(setattr, subject, "ROOT", subject.ROOT)
        subject.ROOT = self.root
        for body, fails in (("lambent::PlainLock lock(mutex_); ++count_;", False), ("mutex_.lock(); ++count_; mutex_.unlock();", False),
                            ("mutex_.lock(); ++count_;", True), ("mutex_.assert_held(); ++count_;", False), ("++count_;", True)):
            with self.subTest(body):
                self.write("src/f/m/counter.cc", SOURCE % body)
                self.assertEqual("thread-safety" in subject.check(pathlib.Path("src/f/m/counter.cc")), fails)

    def test_sources_that_include_the_wrapper_by_way_of_another_module_are_checked(self):
        self.write("src/f/m/counter.h", HEADER)
        self.write("src/f/other/use.h", '#include "f/m/counter.h"\n')
        self.write("src/f/other/use.cc", '#include "f/other/use.h"\n')
        self.write("src/f/other/use_test.cc", '#include "f/other/use.h"\n')
        self.write("src/f/other/none.cc", '#include <vector>\n')
        self.assertEqual([str(each) for each in subject.sources(self.root)], ["src/f/other/use.cc"])

    def test_help_does_not_begin_the_pass(self):
        done = subprocess.run([sys.executable, "-B", subject.__file__, "--help"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("usage:", done.stdout)
        self.assertNotIn("sources hold their locks", done.stdout)


if __name__ == "__main__":
    unittest.main()
