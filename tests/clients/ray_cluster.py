"""What the tests of lambent.ray share: nodes of Ray on this machine (ray.cluster_utils), with workers of this build. All have one
address and one /dev/shm, so that they test joining, calls and death, and no network."""
import base64
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from certificates import Authority
from harness import PREFIX, claim_ports, make_zip

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "python"
HAS_RAY = importlib.util.find_spec("ray") is not None
NEEDS_RAY = unittest.skipUnless(HAS_RAY, "ray is not installed: ./dev test installs it where it can be had")
NEEDS_TIME = unittest.skipUnless(os.environ.get("LAMBENT_WHOLE_TESTS"), "it takes minutes: ./dev test --all runs it")
SIZES = {"num_cpus": 1, "num_gpus": 1, "object_store_memory": 80 << 20}

ECHO = """
def handler(event, context):
    if event.get("fail"):
        raise ValueError("asked to")
    return {"sum": sum(event["numbers"])}
"""


def invoke(address, function, event):
    request = urllib.request.Request(f"{address}/2015-03-31/functions/{function}/invocations", json.dumps(event).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def deploy(address, name, files, runtime="provided.al2023", handler="app.handler", kind=None):
    body = {"FunctionName": name, "Runtime": runtime, "Handler": handler, "Role": "x",
            "Code": {"ZipFile": base64.b64encode(make_zip(files)).decode()}}
    if kind:
        body["Tags"] = {"lambent:kind": kind}
    request = urllib.request.Request(address + "/2015-03-31/functions", json.dumps(body).encode())
    urllib.request.urlopen(request, timeout=30).close()


def deploy_total(address):
    deploy(address, "total", {"app.py": ECHO}, "python3")


class RayTest(unittest.TestCase):
    """begin() of its setUpClass() makes the cluster of Ray; what it starts ends with the class."""

    @classmethod
    def prepare(cls):
        sys.path.insert(0, str(SOURCE))
        # Processes of Ray find the package by this.
        os.environ["PYTHONPATH"] = f"{SOURCE}:{os.environ.get('PYTHONPATH', '')}"
        os.environ["RAY_DISABLE_MEMORY_MONITOR"] = "1"
        os.environ["RAY_ENABLE_METRICS_COLLECTION"] = "0"
        import ray

        import lambent.ray
        cls.ray, cls.lambent = ray, lambent.ray
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-ray-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.addClassCleanup(cls.end_workers)
        (cls.folder / "key").write_text("r" * 40)

    @classmethod
    def begin(cls, nodes):
        cls.prepare()
        from ray.cluster_utils import Cluster
        cls.of_ray = Cluster(initialize_head=True, head_node_args={
            **SIZES, "include_dashboard": False,
            # Ray else notices only after 20 seconds that a node is lost.
            "_system_config": {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000, "health_check_failure_threshold": 3}})
        cls.addClassCleanup(cls.of_ray.shutdown)
        for _ in range(nodes - 1):
            cls.of_ray.add_node(**SIZES)
        cls.ray.init(address=cls.of_ray.address, namespace="test", log_to_driver=False)
        cls.addClassCleanup(cls.ray.shutdown)

    @classmethod
    def begin_with_total(cls, nodes):
        """The same, with a worker on each node of Ray and the function that adds up numbers."""
        cls.begin(nodes)
        cls.cluster = cls.start().wait_until_up(120)
        cls.addresses = [member["address"] for member in cls.cluster.status()[0]["cluster"]["members"]]
        deploy_total(cls.addresses[0])

    @classmethod
    def tls_folder(cls, *alternatives):
        """With the files that `start(tls=...)` takes, of a certificate with these alternative names (localhost unless said)."""
        authority, tls = Authority(cls.folder), cls.folder / "tls"
        certificate, key = authority.issue("node", *alternatives)
        tls.mkdir()
        for name, path in (("tls.crt", certificate), ("tls.key", key), ("ca.crt", authority.certificate)):
            (tls / name).write_bytes(pathlib.Path(path).read_bytes())
        return tls

    @classmethod
    def serve_words(cls, name="ray-{node}", listen="127.0.0.1:0"):
        return [str(PREFIX / "bin/lambent-worker"), "--cluster-key", str(cls.folder / "key"), "--node-name", name,
                "--state", str(cls.folder / "{node}"), "--run", str(cls.folder / "{node}/run"), "--listen", listen,
                "--gpu", "emulated:tiny"]

    @classmethod
    def start(cls, serve=None, timeout=90, **options):
        return cls.lambent.start(str(cls.folder / "key"), state=str(cls.folder), serve=cls.serve_words() if serve is None else serve,
                                 timeout=timeout, **options)

    @classmethod
    def workers(cls):
        """Their process ids, as the kernel knows them by what they were started with."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"bin/lambent-worker") and str(cls.folder).encode() in b" ".join(words):
                found.append(int(entry.parent.name))
        return sorted(found)

    @classmethod
    def end_workers(cls):
        for process in cls.workers():
            os.kill(process, signal.SIGTERM)
        deadline = time.monotonic() + 40
        while cls.workers() and time.monotonic() < deadline:
            time.sleep(0.1)

    def wait_for(self, what, seconds=120):
        deadline = time.monotonic() + seconds
        while not what():
            self.assertLess(time.monotonic(), deadline, "it did not happen in time")
            time.sleep(0.2)

    def own_addresses(self):
        """Of the workers of nodes that Ray has, by their names."""
        found = {}
        for status in self.cluster.status():
            if status["cluster"] is None:
                continue
            own = next(member for member in status["cluster"]["members"] if member["self"])
            found[own["node"]] = own["address"]
        return found


class AutoscaledRay:
    """Ray with its autoscaler and nodes that it starts, on this machine or by another provider. Ray's own AutoscalingCluster ends every
    Ray of the machine when it starts and ends, and needs a file that its package lacks."""

    LISTS = ("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands", "head_start_ray_commands",
             "worker_start_ray_commands", "cluster_synced_files", "rsync_exclude", "rsync_filter")

    def __init__(self, folder, node_types, ip=None, provider=None):
        """`provider`: what its configuration says beside Ray's address."""
        from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID
        from ray.util import get_node_ip_address
        (port,) = claim_ports(1)
        self.address, self._folder = f"{ip or get_node_ip_address()}:{port}", folder / "ray"
        environment = {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_AUTH_MODE": "disabled"}
        if provider is None:
            provider = {"type": "fake_multinode", "use_node_id_as_ip": True, "head_node_id": FAKE_HEAD_NODE_ID}
            environment.update(RAY_FAKE_CLUSTER="1", RAY_OVERRIDE_NODE_ID_FOR_TESTING=FAKE_HEAD_NODE_ID)
        head = {"ray.head.default": {"resources": {"CPU": 1}, "node_config": {}, "max_workers": 0}}
        config = {"cluster_name": "fake", "max_workers": 8, "upscaling_speed": 1.0, "idle_timeout_minutes": 0.05, "auth": {}, "docker": {},
                  "file_mounts": {}, "file_mounts_sync_continuously": False, "head_node_type": "ray.head.default",
                  "available_node_types": {**node_types, **head}, **{name: [] for name in self.LISTS},
                  "provider": {"disable_node_updaters": True, "disable_launch_config_check": True, "gcs_address": self.address, **provider}}
        (folder / "autoscaler.json").write_text(json.dumps(config))
        words = ["start", "--head", "--block", f"--port={port}", "--num-cpus=1",
                 f"--object-store-memory={80 << 20}", "--include-dashboard=false", f"--temp-dir={self._folder}",
                 f"--autoscaling-config={folder / 'autoscaler.json'}", *([f"--node-ip-address={ip}"] if ip else [])]
        with open(folder / "ray.log", "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from ray.scripts.scripts import main; main()", *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={**os.environ, **environment})
        deadline = time.monotonic() + 120
        while "Ray runtime started" not in (folder / "ray.log").read_text():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.shutdown()
                raise AssertionError((folder / "ray.log").read_text())
            time.sleep(0.2)

    def _processes(self):
        """All that know its folder, also nodes that the autoscaler started."""
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self._folder).encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                    yield int(entry.parent.name)
            except OSError:
                continue

    def shutdown(self):
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for process in self._processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
