#!/usr/bin/env python3
"""The check of versions must be able to fail: it is run on trees in which one place is behind."""
import pathlib
import re
import tempfile
import unittest

import check_versions as subject

ROOT = pathlib.Path(__file__).resolve().parent.parent


class VersionsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for path in {path for path, _ in [subject.SOURCE, subject.CHANGES, *subject.PLACES]}:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text((ROOT / path).read_text())

    def change(self, path, pattern, by):
        """Puts the version that `pattern` finds first to `by`."""
        text = (self.root / path).read_text()
        found = re.search(pattern, text, re.MULTILINE)
        (self.root / path).write_text(text[:found.start(1)] + by + text[found.end(1):])

    def test_the_tree_agrees(self):
        self.assertEqual(subject.offences(self.root), [])

    def test_each_place_that_is_behind_is_named(self):
        for path, pattern in subject.PLACES:
            with self.subTest(path=path, pattern=pattern):
                self.setUp()
                self.change(path, pattern, "9.8.7")
                [offence] = subject.offences(self.root)
                self.assertRegex(offence, rf"^{re.escape(path)}:\d+: 9\.8\.7, but CMakeLists\.txt has")

    def test_a_place_that_names_none_and_a_changelog_without_the_version_are_told(self):
        (self.root / "README.md").write_text("# Lambent\n")
        self.change(*subject.CHANGES, "9.8.7")
        self.assertEqual([each.split(":")[0] for each in subject.offences(self.root)], ["README.md", "CHANGELOG.md"])

    def test_a_new_version_has_to_be_written_everywhere(self):
        self.change(*subject.SOURCE, "9.8.7")
        self.assertEqual({each.split(":")[0] for each in subject.offences(self.root)},
                         {path for path, _ in [subject.CHANGES, *subject.PLACES]})


if __name__ == "__main__":
    unittest.main()
