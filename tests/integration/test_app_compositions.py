"""Web applications and workflows of lambent.App, and SLOs of functions, in a running worker."""
import http.client
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import PREFIX, Worker

PYTHON = str(PREFIX / "share/lambent/python")
sys.path.insert(0, PYTHON)

WEB = """
import os
import lambent

app = lambent.App("web")

@app.http(memory="128M", concurrency=4)
def plain():
    def application(environ, start_response):
        body = (environ["PATH_INFO"] + " " + environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0)).decode()).encode()
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]
    return application

@app.http(memory="128M")
def server():
    import http.server
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")
    return http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)

@app.http(memory="128M")
def by_itself():
    server().serve_forever()

@app.http(memory="128M")
def nothing():
    pass

@app.http(memory="128M")
def number():
    return 3
"""

SHOP = """
import time
import lambent

app = lambent.App("shop")

@app.function(memory="128M")
def price(item: int, quantity: int = 1) -> float:
    return item * 1.5 * quantity

@app.function(memory="128M")
def total(prices: list) -> float:
    return sum(prices)

@app.function(memory="128M")
def discount(amount: float) -> float:
    if amount > 10000:
        raise ValueError("so much is not sold")
    return amount * 0.9

@app.cls(memory="128M")
class Desk:
    @lambent.enter
    def open(self):
        self.name = "desk"

    def receipt(self, customer, due):
        return {"customer": customer, "due": due, "from": self.name}

@app.workflow(timeout=60)
def order(items: list, customer: str = "anyone", quantity: int = 1) -> dict:
    prices = price.each(items, quantity=quantity)
    whole = total(prices)
    less = discount.when(whole > 20)(whole)
    return {"customer": customer, "whole": whole, "less": less, "receipt": Desk().receipt(customer, due=whole)}

@app.workflow()
def twice(items: list):
    return [order(items, "a", 1), order(items, "b", 2)]

@app.function(memory="128M", slo=5)
def quick(n: int) -> int:
    return n

@app.function(memory="128M", slo=0.001)
def slow(n: int) -> int:
    time.sleep(0.05)
    return n
"""


class CompositionsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-compositions-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        (cls.folder / "composed_web.py").write_text(WEB)
        (cls.folder / "composed_shop.py").write_text(SHOP)
        cls.worker = Worker(gpu="none")
        cls.addClassCleanup(cls.worker.close)
        os.environ["LAMBENT_ENDPOINT"] = cls.worker.endpoint
        cls.addClassCleanup(os.environ.pop, "LAMBENT_ENDPOINT", None)
        sys.path.insert(0, str(cls.folder))
        import composed_shop
        import composed_web

        cls.shop, cls.web = composed_shop, composed_web
        cls.deployed = composed_shop.app.deploy() + composed_web.app.deploy()

    def command(self, *words):
        return subprocess.run([sys.executable, "-m", "lambent", *words], capture_output=True, text=True, cwd=self.folder, timeout=60,
                              env={**os.environ, "PYTHONPATH": PYTHON})

    def lambent(self, *words):
        return subprocess.run([str(PREFIX / "bin/lambent"), *words], capture_output=True, text=True, timeout=60).stdout

    def get(self, path, body=None):
        host = self.worker.endpoint.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=60)
        connection.request("GET" if body is None else "POST", path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def test_what_an_http_function_returns_is_served(self):
        self.assertEqual(self.get("/f/web-plain/a/b", b"sent"), (200, "/a/b sent"))
        self.assertEqual(self.get("/f/web-server/"), (200, "ok"))
        self.assertEqual(self.get("/f/web-by_itself/"), (200, "ok"))

    def test_what_cannot_be_served_says_so(self):
        self.assertEqual(self.get("/f/web-nothing/")[0], 502)
        self.assertIn("nothing returned nothing, and nothing listens", self.lambent("logs", "web-nothing"))
        self.assertEqual(self.get("/f/web-number/")[0], 502)
        self.assertIn("number returned a int, which is neither", self.lambent("logs", "web-number"))
        self.assertIn("plain is a web application, which 'lambent deploy composed_web.py' serves at /f/web-plain/",
                      self.command("run", "composed_web.py::plain").stderr)

    def test_a_workflow_makes_the_calls_that_its_function_is_written_as(self):
        wanted = {"customer": "Ada", "whole": 9.0, "less": None, "receipt": {"customer": "Ada", "due": 9.0, "from": "desk"}}
        self.assertEqual(self.shop.order.local([1, 2, 3], "Ada"), wanted)
        self.assertEqual(self.shop.order.remote([1, 2, 3], "Ada"), wanted)
        large = self.shop.order.remote([10, 20], quantity=2)
        self.assertEqual((large["customer"], large["whole"], large["less"]), ("anyone", 90.0, 81.0))
        self.assertEqual([each["whole"] for each in self.shop.order.map([[1], [2]])], [1.5, 3.0])
        self.assertEqual([each["whole"] for each in self.shop.twice.spawn([4]).get()], [6.0, 12.0])
        # Any other client sends its keywords as JSON.
        self.assertEqual(self.worker.invoke("shop-order", {"items": [2], "customer": "c", "quantity": 1}).json["whole"], 3.0)
        # The worker makes the calls, and says of each how it went.
        log = self.lambent("logs", "shop-order")
        for call in ("price[0]", "total", "discount", "receipt"):
            self.assertIn(f"{call}  at ", log)

    def test_a_failure_names_the_call_of_the_workflow(self):
        from lambent.app_calls import RemoteError

        with self.assertRaisesRegex(RemoteError, "component discount of shop-order failed: .*so much is not sold"):
            self.shop.order.remote([100000])

    def test_a_workflow_that_makes_no_graph_is_shown_where(self):
        for line, said in (("if total(items): pass", "has no value before the workflow runs"), ("return total(items, items)", "too many positional"),
                           ("return words(items)", "is a generator"), ("return Shelf().words(items)", "is a generator"),
                           ("return words(f'{items} more')", "has no text before the workflow runs")):
            (self.folder / "wrong.py").write_text(SHOP.replace('App("shop")', 'App("wrong")') +
                                                  "\n@app.cls()\nclass Shelf:\n    def words(self, text):\n        yield text\n"
                                                  f"\n@app.function()\ndef words(text):\n    yield text\n\n@app.workflow()\ndef w(items):\n    {line}\n")
            done = self.command("deploy", "wrong.py")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertIn(line, done.stderr)

    def test_the_command_runs_a_workflow_and_refuses_arguments_of_another_type(self):
        done = self.command("run", "composed_shop.py::order", "[1]", "--customer", "7")
        self.assertIn("'customer': '7'", done.stdout, done.stderr)
        done = self.command("run", "composed_shop.py::price", "--item", "x")
        self.assertEqual((done.returncode, done.stderr), (13, "lambent: INVALID_ARGUMENT: --item is a whole number, not 'x'\n"))
        done = self.command("run", "composed_shop.py::price", "three")
        self.assertEqual(done.stderr, "lambent: INVALID_ARGUMENT: item is a whole number, not 'three'\n")

    def test_slos_are_counted_and_told(self):
        self.assertEqual((self.shop.quick.remote(1), self.shop.slow.remote(2)), (1, 2))
        metrics = self.worker.metrics()
        self.assertIn('lambent_slo_requests_total{function="shop-quick",outcome="in_time",tenant="1"} 1', metrics)
        self.assertIn('lambent_slo_requests_total{function="shop-slow",outcome="late",tenant="1"} 1', metrics)
        reply = self.worker.request("POST", "/2015-03-31/functions/shop-slow/invocations", b"[2]")
        self.assertEqual(reply.headers["x-lambent-slo"], "late")
        self.assertNotIn("x-lambent-slo", self.worker.request("POST", "/2015-03-31/functions/shop-price/invocations", b"[2]").headers)
        described = self.lambent("describe", "shop-slow")
        self.assertRegex(described, r"slo_ms +1\n")
        self.assertRegex(described, r"within its SLO +0 of 2\b")
        self.assertNotIn("slo_ms", self.lambent("describe", "shop-price"))


if __name__ == "__main__":
    unittest.main()
