"""What the dashboard's tests share: a headless Chromium whose pages report what went wrong in them, and axe's findings."""
import contextlib
import json
import os
import pathlib
import shutil
import sys
import unittest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCREENSHOTS = os.environ.get("LAMBENT_SCREENSHOTS")  # a folder; set: tests leave pictures there

try:
    from playwright.sync_api import expect, sync_playwright
    from axe_playwright_python.sync_playwright import Axe
except ImportError:
    sync_playwright = expect = Axe = None

WAIT_MS = 20_000  # until the page shows what it should: machines may be busy


def skip_unless_there_is_a_browser():
    if CHROMIUM is None:
        print("SKIPPED: there is no Chromium here; './dev test --all' installs it, and 'apt-get install chromium' too")
        sys.exit(77)
    if sync_playwright is None:
        print(f"SKIPPED: {sys.executable} has no Playwright; './dev test' installs it where there is a Chromium")
        sys.exit(77)


class BrowserTest(unittest.TestCase):
    """A test case with one browser. Every page must end without an error in its console, but for `expected_errors`."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        cls.addClassCleanup(cls.browser.close)
        expect.set_options(timeout=WAIT_MS)

    def setUp(self):
        self.errors, self.expected_errors = [], ()

    def tearDown(self):
        unexpected = [error for error in self.errors if not any(text in error for text in self.expected_errors)]
        self.assertEqual(unexpected, [], "errors of the page")

    def open(self, address, route="", width=1280, height=900, colours="light", storage=None):
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=colours)
        self.addCleanup(context.close)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda message: self.errors.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(f"{address}/{route}")
        return page

    def goto(self, page, route):
        page.evaluate("route => { location.hash = route; }", route)

    def assert_accessible(self, page):
        """No finding of axe that keeps readers out. Its script is put in past the page's policy, by the debugger."""
        results = Axe().run(page, options={"resultTypes": ["violations"]}).response
        serious = [(each["id"], each["help"], [node["html"] for node in each["nodes"]][:3]) for each in results["violations"]
                   if each["impact"] in ("serious", "critical")]
        self.assertEqual(serious, [], json.dumps(serious, indent=1))

    def assert_fits(self, page):
        """Nothing but tables, which scroll by themselves, is wider than the screen."""
        overflow = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        self.assertLessEqual(overflow, 0)

    def picture(self, page, name):
        if SCREENSHOTS:
            with contextlib.suppress(FileExistsError):
                pathlib.Path(SCREENSHOTS).mkdir(parents=True)
            page.screenshot(path=f"{SCREENSHOTS}/{name}.png", full_page=True)
