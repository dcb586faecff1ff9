"""The site of the documentation: every page that users are to read is in its navigation, and with --all it is built."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "site"))
import links  # noqa: E402

GROUPS = ("get-started", "concepts", "guides", "operate", "reference")


class Site(unittest.TestCase):
    def test_every_page_for_users_is_in_the_navigation_and_in_the_index_once(self):
        pages = sorted(str(path.relative_to(ROOT / "docs")) for group in GROUPS for path in (ROOT / "docs" / group).glob("*.md"))
        listed = re.findall(r"^ +- (?:[\w ]+: )?((?:%s)/[\w-]+\.md)$" % "|".join(GROUPS), (ROOT / "tools/site/mkdocs.yml").read_text(), re.MULTILINE)
        self.assertEqual(sorted(listed), pages)
        index = re.findall(r"\(((?:%s)/[\w-]+\.md)\)" % "|".join(GROUPS), (ROOT / "docs" / "index.md").read_text())
        self.assertEqual(sorted(set(index)), pages)

    def test_links_to_files_that_the_site_lacks_become_text(self):
        there = {"guides/a.md", "index.md"}
        text = "[a](a.md#x) [code](../../src/x.h) [web](https://x.org) [here](#y)\n```\n[kept](../../src/x.h)\n```\n"
        self.assertEqual(links.without_links_to(there.__contains__, "guides/b.md", text),
                         "[a](a.md#x) code [web](https://x.org) [here](#y)\n```\n[kept](../../src/x.h)\n```\n")

    @unittest.skipUnless(os.environ.get("LAMBENT_WHOLE_TESTS"), "installs MkDocs from PyPI; ./dev test --all runs it")
    def test_it_builds_without_a_warning_and_fetches_nothing(self):
        done = subprocess.run([ROOT / "dev", "docs"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for page in (ROOT / "dist" / "site").rglob("*.html"):
            for tag in re.findall(r"<(?:script|link|img)\b[^>]*>", page.read_text()):
                with self.subTest(page.name):
                    self.assertNotRegex(tag, r"(?:src|href)=\"?https?://(?!\S*rel=\"?canonical)")


if __name__ == "__main__":
    unittest.main()
