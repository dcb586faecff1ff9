#!/usr/bin/env python3
"""The check of links must be able to fail: it is run on small trees with one fault each."""
import pathlib
import tempfile
import unittest

import check_links as subject

PAGE = """# The house
[up](#the-house), [a folder](src), [a page](docs/b.md#two-words-1), [outside](https://example.org/x)
[`hall::Class::open`](src/core/hall/x.cc) and [`hall::open_all`](src/core/hall/x.cc)
| module | is |
| hall | one |
| bin | mains |
"""


class LinksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("src/modules.cmake", "floor(core)\nmodule(hall DEPENDS base)\n")
        self.write("src/core/hall/x.cc", "Result<int> Class::open(int a) {\n}\nResult<void> open_all(int b) {\n}\n")
        self.write("docs/b.md", "# B\n## Two *words*\n## Two words\n")
        self.write("ARCHITECTURE.md", PAGE)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def problems(self, old="", new=""):
        self.write("ARCHITECTURE.md", PAGE.replace(old, new) if old else PAGE + new)
        return subject.check(self.root)

    def refused(self, words, old="", new=""):
        problems = self.problems(old, new)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(words, problems[0])

    def test_a_tree_whose_links_lead_somewhere_passes(self):
        self.assertEqual(self.problems(), [])

    def test_a_file_that_is_not_there_is_named_with_its_line(self):
        self.refused("ARCHITECTURE.md:7: gone.md is not there", "", "[x](gone.md)\n")

    def test_a_heading_that_is_not_there_is_named(self):
        self.refused("there is no such heading", "#two-words-1", "#two-words-2")
        self.refused("there is no such heading", "(#the-house)", "(#the-garden)")

    def test_a_link_over_two_lines_is_read(self):
        self.refused("gone.md is not there", "", "[two\nlines](gone.md)\n")

    def test_a_definition_of_a_link_is_read(self):
        self.refused("gone.md is not there", "", "[x]: gone.md\n")

    def test_a_path_from_the_root_of_the_file_system_is_refused(self):
        self.refused("is not relative", "", "[x](/etc/passwd)\n")

    def test_what_stands_in_code_is_no_link(self):
        self.assertEqual(self.problems("", "`a[0](b)` and `c`\n```\n[x](gone.md)\n```\n"), [])

    def test_a_function_that_was_renamed_or_moved_is_named(self):
        self.refused("hall::Class::close is not defined in src/core/hall/x.cc", "Class::open", "Class::close")
        self.refused("hall::open_some is not defined", "open_all", "open_some")
        self.write("src/core/hall/x.cc", "void Class::use() { open_all(1); open(2); }\n")
        self.assertEqual(len(subject.check(self.root)), 2)

    def test_a_name_of_another_module_is_named(self):
        self.refused("is not of the module", "`hall::Class", "`shed::Class")

    def test_a_method_in_the_body_of_its_class_is_found(self):
        self.write("src/core/hall/y.h", "class Class {\n  void open(int a) {}\n};\nstruct Other;\n")
        self.assertEqual(self.problems("open`](src/core/hall/x.cc)", "open`](src/core/hall/y.h)"), [])
        self.refused("hall::Shut::open is not defined", "`hall::Class::open`](src/core/hall/x.cc)",
                     "`hall::Shut::open`](src/core/hall/y.h)")

    def test_a_type_is_found_where_it_is_defined_alone(self):
        self.write("src/core/hall/y.h", "class alignas(8) Class {};\nstruct Other;\nenum class Third { kA };\n")
        for name, count in (("Class", 0), ("Third", 0), ("Other", 1), ("Fourth", 1)):
            self.assertEqual(len(self.problems("", f"[`hall::{name}`](src/core/hall/y.h)\n")), count, name)

    def test_the_table_of_modules_is_complete(self):
        self.refused("leaves out hall", "| hall | one |\n", "")
        self.refused("there is no module attic", "| bin |", "| attic | x |\n| bin |")


if __name__ == "__main__":
    unittest.main()
