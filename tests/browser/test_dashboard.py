"""The dashboard in headless Chromium against a real worker: what the page shows is what the API has, a slow call explains itself,
and what users write stays text.
"""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

import dashboard
from dashboard import BrowserTest, expect
from harness import PREFIX, Worker, make_zip
from test_cluster import Cluster

HELLO = "def handler(e, c):\n    print('hello', e.get('name', 'world'))\n    return 'hello'\n"
SLEEPS = "import time\ndef handler(e, c):\n    time.sleep(e.get('s', 0.1))\n    return 'ok'\n"
HOSTILE = "<img src=x onerror='window.owned=1'><script>window.owned=1</script>"
FAILS = f"def handler(e, c):\n    print({HOSTILE!r})\n    raise ValueError({HOSTILE!r})\n"


class DashboardTest(BrowserTest):
    flags = ("--concurrency", "1")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.worker = Worker(*cls.flags, gpu="emulated:tiny")
        cls.addClassCleanup(cls.worker.close)
        cls.worker.create_python("hello", HELLO)
        cls.worker.create_python("sleeps", SLEEPS, tags={"lambent:gpu-memory": "8M"})
        cls.worker.create_python("fails", FAILS)

    def activity(self, name):
        return self.worker.request("GET", f"/v1/activity/functions/{name}").json["activity"]

    def invoke_beside(self, *calls):
        """Makes these calls at once; their ids in the order in which they were given."""
        ids = [None] * len(calls)

        def make(place, name, payload):
            ids[place] = self.worker.invoke(name, payload).headers["x-amzn-requestid"]
        threads = [threading.Thread(target=make, args=(place, *call)) for place, call in enumerate(calls)]
        for thread in threads:
            thread.start()
            time.sleep(0.15)  # in this order
        for thread in threads:
            thread.join()
        return ids

    def test_the_table_of_functions_shows_what_the_api_has_and_follows_it(self):
        for _ in range(3):
            self.worker.invoke("hello")
        page = self.open(self.worker.endpoint, "#/functions")
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="hello", exact=True))
        calls = row.get_by_role("cell").nth(3)
        of = lambda told: told["cold"] + told["gpu_cold"] + told["warm"]
        expect(calls).to_have_text(str(of(self.activity("hello"))))
        before = of(self.activity("hello"))
        self.worker.invoke("hello")
        expect(calls).to_have_text(str(before + 1))
        self.assertEqual(of(self.activity("hello")), before + 1)
        expect(row.get_by_role("img")).to_have_attribute("aria-label", re.compile("^Cold "))
        self.assert_accessible(page)

    def test_a_call_that_waited_says_for_what(self):
        _, waited = self.invoke_beside(("sleeps", {"s": 1.5}), ("sleeps", {"s": 0.05}))
        page = self.open(self.worker.endpoint)
        slow = page.get_by_role("region", name="Calls").get_by_role("row").filter(has_text="waiting")
        expect(slow.first).to_contain_text("sleeps")
        page.evaluate("id => { location.hash = `#/invocations/${id}`; }", waited)
        told = self.worker.request("GET", f"/v1/activity/invocations/{waited}").json
        self.assertGreater(told["phases_ms"]["queue"], 300, told)
        headline = page.locator(".headline")
        expect(headline).to_contain_text("waiting, because")
        expect(page.locator(".finding").first).to_contain_text("It waited")
        expect(page.get_by_role("row").filter(has_text="Queue")).to_contain_text(re.compile(r"\d+\s%"))
        # The scheduler's own story, from the journal.
        expect(page.locator(".story li").first).to_contain_text("arrived")
        expect(page.locator(".story li").last).to_contain_text("succeeded")
        self.assert_accessible(page)

    def test_advice_for_a_function_without_a_gpu_is_about_its_own_limit(self):
        self.worker.create_python("one", SLEEPS, tags={"lambent:max-concurrency": "1"})
        self.addCleanup(self.worker.delete, "one")
        self.worker.invoke("one", {"s": 0})  # warm
        _, _, waited = self.invoke_beside(("one", {"s": 1}), ("one", {"s": 1}), ("one", {"s": 0.05}))
        told = self.worker.request("GET", f"/v1/invocations/{waited}/why").json
        self.assertGreater(told["waits_ms"]["concurrency_limit"], 300, told)
        page = self.open(self.worker.endpoint, f"#/invocations/{waited}")
        queue = page.locator(".finding.b-queue")
        expect(queue).to_contain_text("its function ran as many calls as it may at once", ignore_case=True)
        expect(queue).to_contain_text("Raise the function's max_concurrency (now 1)")
        expect(queue).to_contain_text("more GPUs would change nothing")
        expect(queue).not_to_contain_text("nother GPU")
        expect(page.locator(".headline")).to_contain_text("its function ran as many calls as it may at once")
        expect(page.locator(".tiles")).to_contain_text("no GPU")
        expect(page.get_by_text("with the GPU shared")).to_have_count(0)
        self.assert_accessible(page)

    def test_advice_for_a_function_with_a_gpu_is_about_what_held_it(self):
        _, waited = self.invoke_beside(("sleeps", {"s": 1.5}), ("sleeps", {"s": 0.05}))
        told = self.worker.request("GET", f"/v1/invocations/{waited}/why").json["waits_ms"]
        page = self.open(self.worker.endpoint, f"#/invocations/{waited}")
        queue = page.locator(".finding.b-queue")
        reason = max(told, key=told.get)
        self.assertIn(reason, ("no_token", "at_work"), told)
        expect(queue).to_contain_text({"no_token": "a higher concurrency (D)", "at_work": "if the GPUs have room"}[reason])
        expect(queue).not_to_contain_text("more GPUs would change nothing")

    def test_what_waits_now_is_shown_with_its_reason(self):
        thread = threading.Thread(target=lambda: self.invoke_beside(("sleeps", {"s": 10}), ("sleeps", {}), ("sleeps", {})))
        thread.start()
        self.addCleanup(thread.join)
        page = self.open(self.worker.endpoint)
        expect(page.locator(".slot.busy")).to_contain_text("sleeps")
        expect(page.locator(".reasons li").first).to_contain_text(re.compile(r"sleeps\s+[12]\scalls?, the longest for"))
        page.get_by_role("link", name="sleeps").first.click()
        expect(page).to_have_url(re.compile("#/(invocations|functions)/"))

    def test_a_functions_page_follows_its_log(self):
        page = self.open(self.worker.endpoint, "#/functions/hello")
        log = page.get_by_role("region", name="Log of hello")
        self.worker.invoke("hello", {"name": "Ada"})
        expect(log).to_contain_text("hello Ada")
        self.worker.invoke("hello", {"name": "Grace"})
        expect(log).to_contain_text("hello Grace")
        settings = page.get_by_role("region", name="Settings")
        expect(settings).to_contain_text("app.handler")
        expect(page.get_by_role("region", name="Versions, aliases, revisions")).to_contain_text("the current one")
        self.assert_accessible(page)

    def test_what_users_write_stays_text(self):
        failed = self.worker.invoke("fails").headers["x-amzn-requestid"]
        self.worker.request("POST", "/v1/functions/fails/versions", json.dumps({"description": HOSTILE}))
        page = self.open(self.worker.endpoint, "#/functions/fails")
        expect(page.get_by_role("region", name="Log of fails")).to_contain_text(HOSTILE)
        expect(page.get_by_role("region", name="Versions, aliases, revisions")).to_contain_text(HOSTILE)
        self.goto(page, f"#/invocations/{failed}")
        expect(page.locator(".badge.bad").first).to_contain_text("failed")
        self.goto(page, f"#/functions/{HOSTILE}")
        expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE)
        self.expected_errors = ("404",)
        self.assertIsNone(page.evaluate("() => window.owned ?? null"))
        self.assertEqual(page.evaluate("() => document.querySelectorAll('img:not(.brand img), main script').length"), 0)

    def test_what_if_compares_with_what_was(self):
        self.invoke_beside(("sleeps", {"s": 0.3}), ("sleeps", {"s": 0.3}), ("sleeps", {"s": 0.3}))
        page = self.open(self.worker.endpoint, "#/what-if")
        page.get_by_label("Calls at once on a GPU (D)").fill("3")
        page.get_by_role("button", name="Simulate").click()
        table = page.get_by_role("region", name="Comparison")
        expect(table.get_by_role("row")).to_have_count(4)
        expect(table).to_contain_text("Simulated, D=3")
        self.assert_accessible(page)
        page.get_by_label("Policy").select_option("fcfs")
        page.get_by_role("button", name="Simulate").click()
        expect(table).to_contain_text("policy=fcfs")

    def test_a_workflow_is_a_graph_and_its_run_too(self):
        graph = {"components": [{"name": "first", "function": "hello", "input": {"name": "$input.name"}},
                                {"name": "left", "function": "hello", "input": {"name": "$first"}},
                                {"name": "right", "function": "hello", "input": {"name": "$first"}},
                                {"name": "last", "function": "hello", "input": {"name": ["$left", "$right"]}}]}
        self.worker.create("flow", make_zip({"workflow.json": json.dumps(graph)}), runtime="provided.al2023", handler="workflow.json",
                           tags={"lambent:kind": "workflow"})
        self.addCleanup(self.worker.delete, "flow")
        run = self.worker.invoke("flow", {"name": "x"}).headers["x-amzn-requestid"]
        page = self.open(self.worker.endpoint, "#/functions/flow")
        picture = page.locator("svg.graph")
        expect(picture).to_have_attribute("aria-label", "Workflow: first; left after first; right after first; last after left and right")
        expect(picture.locator(".node")).to_have_count(4)
        expect(picture.locator(".edge")).to_have_count(4)
        self.goto(page, f"#/invocations/{run}")
        expect(page.get_by_role("region", name="Parts of the run").get_by_role("row")).to_have_count(5)
        expect(page.locator("svg.graph .node.ran")).to_have_count(4)
        self.assert_accessible(page)

    def test_settings_are_those_of_the_worker(self):
        page = self.open(self.worker.endpoint, "#/settings")
        expect(page.get_by_role("row").filter(has_text="--concurrency")).to_contain_text("1")
        expect(page.get_by_role("region", name="You")).to_contain_text("default")
        self.assert_accessible(page)

    def test_schedules_are_those_of_the_api(self):
        self.worker.tag("hello", {"lambent:schedules": json.dumps([{"name": "hourly", "rate": "1 hour"}, {"name": "never", "rate": "1 day", "enabled": False}])})
        self.addCleanup(self.worker.tag, "hello", {"lambent:schedules": ""})
        page = self.open(self.worker.endpoint, "#/schedules")
        row = page.get_by_role("row").filter(has_text="hourly")
        expect(row).to_contain_text("every hour")
        expect(row).to_contain_text(re.compile(r"in \d+"))
        expect(row.get_by_role("link")).to_have_attribute("href", "#/functions/hello")
        expect(page.get_by_role("row").filter(has_text="never")).to_contain_text("disabled")
        self.assert_accessible(page)

    def test_a_worker_in_no_cluster_says_so(self):
        page = self.open(self.worker.endpoint, "#/nodes")
        expect(page.get_by_text("This worker is in no cluster")).to_be_visible()
        self.assert_accessible(page)

    def test_a_keyboard_is_enough(self):
        page = self.open(self.worker.endpoint, "#/functions")
        expect(page.get_by_role("link", name="hello", exact=True)).to_be_visible()
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_text("Skip to the content")
        button = page.get_by_role("columnheader", name="p95").get_by_role("button")
        button.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("columnheader", name="p95")).to_have_attribute("aria-sort", "descending")
        self.worker.invoke("hello")  # the page is drawn again, and the focus stays
        page.wait_for_timeout(1500)
        expect(button).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("columnheader", name="p95")).to_have_attribute("aria-sort", "ascending")

    def test_it_fits_a_phone_and_is_dark_where_that_is_wanted(self):
        _, waited = self.invoke_beside(("sleeps", {"s": 0.4}), ("sleeps", {"s": 0.1}))
        page = self.open(self.worker.endpoint, width=390, height=844, colours="dark")
        expect(page.get_by_text("Slowest calls")).to_be_visible()
        background = "() => getComputedStyle(document.documentElement).backgroundColor"
        dark = page.evaluate(background)
        for route in ("#/", "#/functions", "#/invocations", "#/functions/hello", "#/schedules", "#/what-if", "#/settings",
                      f"#/invocations/{waited}"):
            self.goto(page, route)
            page.wait_for_timeout(700)
            self.assert_fits(page)
            self.assert_accessible(page)
            heights = page.evaluate("() => [...document.querySelectorAll('.filters input')].map(each => each.offsetHeight)")
            self.assertTrue(all(height < 60 for height in heights), (route, heights))
        page.get_by_role("button", name="Auto").click()
        self.assertNotEqual(page.evaluate(background), dark)
        page.reload()
        expect(page.get_by_role("button", name="Light")).to_be_visible()

    def test_thousands_of_functions_come_in_pages(self):
        rows = [{**self.activity("hello"), "name": f"f-{number:04}", "warm": number} for number in range(2000)]
        page = self.open("about:blank", "")
        page.route("**/v1/activity/functions?*", lambda route: route.fulfill(json={"functions": rows}))
        page.goto(f"{self.worker.endpoint}/#/functions")
        expect(page.get_by_text(re.compile("page 1 of 4[01]"))).to_be_visible()
        expect(page.locator("tbody tr")).to_have_count(50)
        page.get_by_label("Name").fill("f-1999")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.get_by_label("Name").fill("")
        started = time.monotonic()
        page.get_by_role("columnheader", name="Function").get_by_role("button").click()
        expect(page.locator("tbody tr").first).to_contain_text("f-0000")
        self.assertLess(time.monotonic() - started, 5)


class PipelineDashboardTest(BrowserTest):
    """Example 17 on a GPU that is cut into slices."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.worker = Worker("--pipeline-slices", "all", gpu="emulated:a100-80gb-mig")  # 3g.40gb, 2g.20gb, 2g.20gb
        cls.addClassCleanup(cls.worker.close)
        # As if no slice could hold it all, so that it is cut.
        each = {"weights_mb": 14000, "memory_mb": 15000, "output_bytes": 100000, "probability": 1, "ms": {"2g.20gb": 20, "3g.40gb": 14}}
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "example"
            shutil.copytree(PREFIX / "examples/17_pipeline_image", copy)
            (copy / "code/profile.json").write_text(json.dumps({
                "profile": 1, "context_mb": 500, "start_ms": 300,
                "shapes": {"2g.20gb": {"multiprocessors": 28, "memory_mb": 19968}, "3g.40gb": {"multiprocessors": 42, "memory_mb": 40192}},
                "components": dict.fromkeys(("blur", "enlarge", "brightness", "threshold"), each)}))
            subprocess.run([PREFIX / "bin/lambent", "--endpoint", cls.worker.endpoint, "deploy", copy], check=True, capture_output=True)

    def call(self):
        reply = self.worker.invoke("image_filters", {"size": 9, "noise": 0.4, "check": True})
        self.assertIs(reply.json["correct"], True)
        return reply.headers["x-amzn-requestid"]

    def stages(self):
        """(components, slice) of each stage process of the instance that there is."""
        described = self.worker.request("GET", "/v1/functions/image_filters/pipeline").json
        return [(process["components"], process["slice"]) for stage in described["instances"][0]["stages"] for process in stage]

    def test_a_pipeline_is_a_graph_whose_components_are_on_slices(self):
        self.call()
        stages = self.stages()
        self.assertGreater(len(stages), 1, "it was to be cut")
        page = self.open(self.worker.endpoint, "#/functions/image_filters")
        picture = page.locator("svg.graph")
        expect(picture).to_have_attribute("aria-label", "Pipeline: blur; enlarge after blur; brightness after blur; threshold after enlarge and brightness")
        expect(picture.locator(".node")).to_have_count(4)
        expect(picture.locator(".edge")).to_have_count(4)
        for components, place in stages:
            for name in components:
                expect(picture.locator(".node").filter(has_text=name)).to_contain_text(f"on slice {place}")
        # enlarge and brightness are beside each other: one column, two rows.
        boxes = [picture.locator(".node").filter(has_text=name).bounding_box() for name in ("blur", "enlarge", "brightness", "threshold")]
        self.assertEqual(boxes[1]["x"], boxes[2]["x"])
        self.assertNotEqual(boxes[1]["y"], boxes[2]["y"])
        self.assertLess(boxes[0]["x"], boxes[1]["x"])
        self.assertLess(boxes[2]["x"], boxes[3]["x"])
        expect(page.get_by_role("region", name="Pipeline").first).to_contain_text("Instance")
        settings = page.get_by_role("region", name="Settings")
        expect(settings).to_contain_text("timeout")
        for word in ("gpu memory", "memory mode", "working set", "max concurrency"):
            expect(settings).not_to_contain_text(word)
        self.assert_accessible(page)
        self.picture(page, "dashboard-pipeline")

    def test_a_call_of_a_pipeline_shows_each_stage_on_its_slice(self):
        self.call()
        invocation = self.call()
        stages = self.stages()
        page = self.open(self.worker.endpoint, f"#/invocations/{invocation}")
        rows = page.get_by_role("region", name="Parts of the run").get_by_role("row")
        expect(rows).to_have_count(1 + len(stages))
        for number, (components, place) in enumerate(stages):
            expect(rows.filter(has_text=f"slice {place}")).to_contain_text(", ".join(components))
        expect(page.locator(".headline")).to_contain_text("It took")
        self.assert_accessible(page)
        self.picture(page, "dashboard-pipeline-call")

    def test_the_overview_draws_the_slices_with_who_has_them(self):
        self.call()
        stages = self.stages()
        told = self.worker.request("GET", "/v1/slices").json["slices"]
        page = self.open(self.worker.endpoint)
        drawn = page.get_by_role("region", name="Slices of pipelines").locator(".slice")
        expect(drawn).to_have_count(len(told))
        self.assertEqual(sorted(each["shape"] for each in told), ["2g.20gb", "2g.20gb", "3g.40gb"])
        held = {place for _, place in stages}
        for each in told:
            box = drawn.filter(has=page.get_by_text(each["slice"], exact=True))
            expect(box).to_contain_text(each["shape"])
            expect(box).to_contain_text("image_filters" if each["slice"] in held else "free")
        expect(page.locator(".slice.busy")).to_have_count(len(held))
        expect(page.get_by_role("region", name="GPUs")).to_contain_text("Pipelines have all that this worker has of GPUs: the slices are below.")
        self.assert_accessible(page)
        self.assert_fits(page)
        self.picture(page, "dashboard-slices")


class LonelyDashboardTest(BrowserTest):
    """With workers that come and go."""

    def test_with_nothing_deployed_it_says_what_to_do(self):
        worker = Worker(gpu="none")
        self.addCleanup(worker.close)
        page = self.open(worker.endpoint)
        expect(page.get_by_role("heading", name="No function is deployed yet")).to_be_visible()
        expect(page.get_by_text("lambent deploy hello")).to_be_visible()
        self.assert_accessible(page)
        worker.create_python("hello", HELLO)
        expect(page.get_by_role("heading", name="Slowest calls")).to_be_visible()

    def test_it_comes_back_with_the_worker(self):
        worker = Worker(gpu="none")
        self.addCleanup(worker.close)
        worker.create_python("hello", HELLO)
        worker.invoke("hello")
        page = self.open(worker.endpoint, "#/functions")
        status = page.locator(".connection")
        expect(status).to_have_text("live")
        self.expected_errors = ("Failed to load resource", "ERR_")
        worker.stop()
        expect(status).to_contain_text("does not answer")
        worker.listen = worker.endpoint.removeprefix("http://")
        worker.start()
        expect(status).to_have_text("live")
        worker.invoke("hello")
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="hello", exact=True))
        expect(row.get_by_role("cell").nth(3)).to_have_text("1")  # it counts from its start


class TokenDashboardTest(BrowserTest):
    """What a token may see is what the page shows."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        from tenants import TokenWorker
        cls.tokens = TokenWorker(gpu="none")
        cls.addClassCleanup(cls.tokens.close)
        operator = cls.tokens.operator
        for tenant in ("red", "blue"):
            operator.create_tenant(tenant)
            operator.caller(tenant).create_python(f"{tenant}-function", HELLO)
        cls.reader = operator.create_token("red", scopes=["read"])
        cls.endpoint = cls.tokens.worker.endpoint

    def setUp(self):
        super().setUp()
        self.expected_errors = ("401", "403")

    def sign_in(self, page, token):
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()

    def test_it_asks_for_a_token_and_shows_its_tenant_only(self):
        page = self.open(self.endpoint, "#/functions")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        self.assert_accessible(page)
        self.sign_in(page, "lambent_wrong")
        expect(page.locator(".note.bad")).to_be_visible()
        addresses = []
        page.on("request", lambda request: addresses.append(request.url))
        self.sign_in(page, self.reader["secret"])
        expect(page.get_by_role("link", name="red-function")).to_be_visible()
        self.assertNotIn("blue-function", page.content())
        self.assertFalse([url for url in addresses + [page.url] if self.reader["secret"] in url])
        self.assertEqual(page.evaluate("() => JSON.stringify(localStorage) + document.cookie").count("lambent_"), 0)
        page.reload()
        expect(page.get_by_role("link", name="red-function")).to_be_visible()
        self.goto(page, "#/settings")
        expect(page.get_by_role("region", name="You")).to_contain_text("red")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        self.assertIsNone(page.evaluate("() => sessionStorage.getItem('lambent-token')"))

    def test_what_needs_an_operator_says_so(self):
        invocation = self.tokens.operator.caller("red").invoke("red-function").headers["x-amzn-requestid"]
        page = self.open(self.endpoint, f"#/invocations/{invocation}")
        self.sign_in(page, self.reader["secret"])
        expect(page.locator(".headline")).to_contain_text("It took")
        expect(page.get_by_text("a token with the scope admin shows it")).to_be_visible()
        expect(page.get_by_role("link", name="Nodes")).to_have_count(0)

    def test_a_token_that_is_revoked_ends_the_view(self):
        token = self.tokens.operator.create_token("red", scopes=["read"])
        page = self.open(self.endpoint, "#/functions")
        self.sign_in(page, token["secret"])
        expect(page.locator(".connection")).to_have_text("live")
        self.tokens.operator.request("DELETE", f"/v1/tenants/red/tokens/{token['id']}")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    def test_a_token_that_may_not_read_is_told_so(self):
        token = self.tokens.operator.create_token("red", scopes=["invoke"])
        page = self.open(self.endpoint)
        self.sign_in(page, token["secret"])
        expect(page.get_by_role("heading", name="This token may not look")).to_be_visible()

    def test_an_operator_may_look_at_another_tenant(self):
        token = self.tokens.operator.create_token("default", scopes=["admin"])
        page = self.open(self.endpoint, "#/settings")
        self.sign_in(page, token["secret"])
        page.get_by_label("Show the tenant").select_option("blue")
        expect(page.get_by_role("region", name="You")).to_contain_text("blue")
        self.goto(page, "#/functions")
        expect(page.get_by_role("link", name="blue-function")).to_be_visible()


class NodesTest(BrowserTest):
    def test_the_nodes_of_a_cluster_are_shown_with_what_is_wrong_with_them(self):
        cluster = Cluster(self, names="ab", gpu="emulated:tiny")
        cluster.wait_until_up()
        page = self.open(cluster["a"].endpoint, "#/nodes")
        rows = page.get_by_role("region", name="Nodes").get_by_role("row")
        expect(page.get_by_text("2 of 2 nodes")).to_be_visible()
        expect(rows.filter(has_text="this one, has the catalog")).to_contain_text("up")
        expect(rows).to_have_count(3)
        self.assert_accessible(page)
        self.picture(page, "dashboard-nodes")
        cluster["b"].kill()
        expect(page.get_by_text("1 of 2 nodes")).to_be_visible()
        expect(rows.filter(has_text="does not answer")).to_have_count(1)


if __name__ == "__main__":
    dashboard.skip_unless_there_is_a_browser()
    unittest.main(verbosity=2)
