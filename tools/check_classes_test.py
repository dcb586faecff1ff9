#!/usr/bin/env python3
"""The check of sizes must be able to fail: it is run on small trees with one fault each, and counts what is known."""
import pathlib
import tempfile
import unittest

import check_classes as subject

HEADER = """
#pragma once
namespace n {
// void in_a_comment();
class Thing final : public Base<int> {
 public:
  Thing();
  explicit Thing(int a) : a_(a) {}
  ~Thing() override;
  Thing(const Thing&) = delete;
  Thing& operator=(const Thing&) = default;
  void one();
  int two() const { return compute(3, 4); }
  template <typename T>
  std::optional<std::pair<T, int>> three(const std::function<void(int)>& done) const;
  [[nodiscard]] static bool four(int a = default_of(1));
  virtual void five(std::vector<int> all = {}) = 0;
  bool operator==(const Thing&) const;
  friend void friend_of(Thing&);
  using Callback = std::function<void(int)>;
  class Nested {
    void not_of_thing();
  };
 private:
  std::function<void(int)> callback_;
  int a_ = compute(1, 2);
  int guarded_ GUARDED_BY(mutex_) = 0;
  void six() REQUIRES(mutex_);
  std::map<int, std::string> b_{{1, "(){"}};
};
enum class Kind { kOne };
}
"""


class ClassesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.root / "src/floor/module" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def found(self, limits=None):
        over, _ = subject.measured(self.root)
        return list(subject.offences(over, limits or {}))

    def methods(self, count):
        return "class Large {\n" + "".join(f"  void method_{i}(int a);\n" for i in range(count)) + "};\n"

    def test_methods_are_counted_and_nothing_else(self):
        self.assertEqual(dict(subject.classes(HEADER)), {"Thing": 7, "Nested": 1})

    def test_a_class_at_the_limit_passes_and_one_above_it_fails(self):
        self.write("large.h", self.methods(40))
        self.assertEqual(self.found(), [])
        self.write("large.h", self.methods(41))
        self.assertEqual(self.found(), ["module::Large has 41 methods; at most 40: take it apart by who owns which state"])

    def test_a_class_within_a_source_file_counts(self):
        self.write("large.cc", "namespace {\n" + self.methods(41) + "}\n")
        self.assertEqual(len(self.found()), 1)

    def test_tests_do_not_count(self):
        self.write("large_test.cc", self.methods(41))
        self.write("testing/large.h", self.methods(41))
        self.assertEqual(self.found(), [])

    def test_a_class_over_too_many_files_fails(self):
        self.write("large.h", self.methods(5))
        for i in range(5):
            self.write(f"part_{i}.cc", f"namespace n {{\nvoid Large::method_{i}(int a) {{\n}}\n}}\n")
        self.assertEqual(self.found(), ["module::Large has 5 files; at most 4: take it apart by who owns which state"])

    def test_a_function_that_is_too_long_fails(self):
        self.write("long.cc", "int f(int a) {\n" + "  ++a;\n" * 78 + "}\n")
        self.assertEqual(self.found(), [])
        self.write("long.cc", "int f(int a) {\n" + "  ++a;\n" * 79 + "}\n")
        self.assertEqual(self.found(), ["module::f has 81 lines; at most 80: take it apart by who owns which state"])

    def test_the_list_may_only_shrink(self):
        self.write("large.h", self.methods(45))
        key = ("methods", "module::Large")
        self.assertEqual(self.found({key: 45}), [])
        self.assertIn("has grown from 44 to 45", self.found({key: 44})[0])
        self.assertIn("lower its line", self.found({key: 46})[0])
        self.write("large.h", self.methods(40))
        self.assertIn("take its line out", self.found({key: 45})[0])


if __name__ == "__main__":
    unittest.main()
