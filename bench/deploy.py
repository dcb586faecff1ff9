"""What a deployment sends and how long it takes, by what has changed: nothing, a setting, one line of code. Beside them, the zip as
the three calls of Lambda's API send it (base64 in JSON), and a bare PUT of as many bytes to a server that reads them.

The function is a Python package of --files files with 4 KiB of text that does not compress well; the last case, `a_line_beside_data`, has it beside
files of data of --mib MiB in all. With --wheels the deployment of a function with packages as well, beside `uv pip install` of the same
wheels into an empty folder. docs/internals/benchmarks.md says what each figure means.
Usage: deploy.py [--quick] [--rounds N] [--files N] [--mib N] [--wheels FOLDER] [--packages NAME,...] [--turns N] [--uv FILE]
"""
import argparse
import base64
import http.server
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request

from worker_under_test import PREFIX, Worker, machine, make_zip

LAMBENT = str(PREFIX / "bin/lambent")


class Sink(http.server.BaseHTTPRequestHandler):
    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def bare_put_ms(size, rounds):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    body, times = os.urandom(size), []
    for _ in range(rounds):
        begin = time.perf_counter()
        urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:%d/" % server.server_port, body, method="PUT")).read()
        times.append(time.perf_counter() - begin)
    server.shutdown()
    return round(statistics.median(times) * 1e3, 2)


def write_package(folder, files):
    chance = random.Random(1)
    for i in range(files):
        (folder / ("part%d.py" % i)).write_text("DATA = %r\n" % bytes(chance.randrange(256) for _ in range(1200)))
    write_code(folder, 0)
    write_manifest(folder, 30)


def write_data(folder, mib):
    """Files of 1 MiB that do not compress."""
    chance = random.Random(2)
    for i in range(mib):
        (folder / ("data%d.bin" % i)).write_bytes(chance.randbytes(1 << 20))


def write_code(folder, number):
    (folder / "app.py").write_text("def handler(event, context):\n    return %d\n" % number)


def write_manifest(folder, timeout):
    (folder / "lambent.toml").write_text(
        'name = "deployed"\nruntime = "python3"\nhandler = "app.handler"\ntimeout_s = %d\n' % timeout)


def uv_install_s(options, folder):
    """With a cache that is empty, as the worker's is."""
    environment = {**os.environ, "UV_CACHE_DIR": str(folder / "cache"), "UV_NO_PROGRESS": "1"}
    python = os.path.realpath("/usr/bin/python3")
    subprocess.run([options.uv, "venv", "--quiet", "--no-project", "--python", python, folder / "venv"], check=True, env=environment)
    begin = time.perf_counter()
    subprocess.run([options.uv, "pip", "install", "--quiet", "--python", folder / "venv/bin/python", "--offline", "--no-index",
                    "--find-links", options.wheels, *options.packages.split(",")], check=True, env=environment)
    return time.perf_counter() - begin


def deploy_with_packages_s(options, folder):
    """The time of the command, and of that until packages are compiled: 0 where that went by unseen."""
    write_code(folder, 0)
    write_manifest(folder, 60)
    with (folder / "lambent.toml").open("a") as manifest:
        manifest.write("[python]\nrequirements = %s\n" % json.dumps(options.packages.split(",")))
    with Worker("--gpu", "none", "--uv", options.uv, "--python-wheels", options.wheels, "--python-offline") as worker:
        begin = compiling = time.perf_counter()
        with subprocess.Popen([LAMBENT, "deploy", str(folder)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                              env={**os.environ, "LAMBENT_ENDPOINT": worker.endpoint}) as deploying:
            for line in deploying.stderr:
                compiling = time.perf_counter() if line.rstrip().endswith(": compiling") else compiling
        assert deploying.returncode == 0
        return time.perf_counter() - begin, compiling - begin


def with_packages(options):
    """uv by itself and the deployment in turns; each begins with what was written on the disk."""
    turns = {"uv_s": [], "deploy_s": [], "until_compiling_s": []}
    for _ in range(options.turns):
        for system in ("uv", "deploy"):
            os.sync()
            with tempfile.TemporaryDirectory() as name:
                if system == "uv":
                    turns["uv_s"].append(uv_install_s(options, pathlib.Path(name)))
                    continue
                took, until_compiling = deploy_with_packages_s(options, pathlib.Path(name))
            turns["deploy_s"].append(took)
            turns["until_compiling_s"].append(until_compiling)
    middle = {key: round(statistics.median(times), 2) for key, times in turns.items()}
    return {"packages": options.packages, "turns": {key: [round(each, 2) for each in times] for key, times in turns.items()}, **middle,
            "over_uv": round(middle["deploy_s"] / middle["uv_s"], 2)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--mib", type=int, default=48)
    parser.add_argument("--wheels")
    parser.add_argument("--packages", default="torch,numpy")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--uv", default=shutil.which("uv") or str(pathlib.Path(__file__).resolve().parents[1] / ".venv/bin/uv"))
    options = parser.parse_args()
    if options.quick:
        options.turns = 1
        options.rounds, options.files, options.mib = 2, 60, 8
    with Worker("--gpu", "none") as worker, tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_package(folder, options.files)

        def deploy():
            begin = time.perf_counter()
            run = subprocess.run([LAMBENT, "deploy", str(folder), "--json"], check=True, stdout=subprocess.PIPE,
                                 env={**os.environ, "LAMBENT_ENDPOINT": worker.endpoint})
            return time.perf_counter() - begin, json.loads(run.stdout)
        _, first = deploy()
        cases, package = {}, {}
        for case, change, action in (("nothing", lambda i: None, "unchanged"),
                                     ("a_setting", lambda i: write_manifest(folder, 31 + i), "updated"),
                                     ("a_line", lambda i: write_code(folder, 1 + i), "updated"),
                                     ("a_line_beside_data", lambda i: write_code(folder, -1 - i), "updated")):
            times, sent = [], []
            if case == "a_line_beside_data":
                package = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".py"}
                write_data(folder, options.mib)
                _, with_data = deploy()
            for i in range(options.rounds):
                change(i)
                took, answer = deploy()
                assert answer["action"] == action, answer["action"]
                times.append(took)
                sent.append(answer["sent_bytes"])
            cases[case] = {"ms": round(statistics.median(times) * 1e3, 2), "sent_bytes": round(statistics.median(sent))}
        in_json = len(base64.b64encode(make_zip(package))) + 60
        print(json.dumps({"bench": "deploy", "machine": machine(), "files": options.files,
                          "package_bytes": first["package_bytes"], "first_sent_bytes": first["sent_bytes"],
                          "lambda_sent_bytes": in_json, "cases": cases,
                          "with_data": {"package_bytes": with_data["package_bytes"], "sent_bytes": with_data["sent_bytes"]},
                          "bare_put_ms": bare_put_ms(first["package_bytes"], options.rounds),
                          "with_packages": with_packages(options) if options.wheels else None}))


if __name__ == "__main__":
    main()
