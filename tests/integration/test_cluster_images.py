"""Container images that lie on one machine of a cluster: each node has what it unpacks from the node that read the layout or archive."""
import base64
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from cluster_world import Postgres
from harness import PREFIX, HttpError
from image_layouts import Layout, compile_server, server_layer
from test_cluster import Cluster
from test_cluster_volumes import Link

TOOLS = shutil.which("skopeo") and shutil.which("umoci")
REGISTRY = shutil.which("docker-registry")
MIB = 1 << 20
# Of "me" with the password "secret".
HTPASSWD = "me:$2b$05$lAlftqJ./ROAHbxeFjx7teu0ziPvf4PoV4Mhz0mMPIZhE7F.5gRCi\n"


class Registry:
    """One on loopback that wants credentials."""

    def __init__(self, test, folder):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.folder, self.process = folder, None
        self.credentials = folder / "auth.json"
        basic = base64.b64encode(b"me:secret").decode()
        self.credentials.write_text(json.dumps({"auths": {f"127.0.0.1:{self.port}": {"auth": basic}}}))
        self.credentials.chmod(0o600)
        (folder / "htpasswd").write_text(HTPASSWD)
        (folder / "registry.yml").write_text(
            f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {folder}/registry\nhttp:\n  addr: 127.0.0.1:{self.port}\n"
            f"auth:\n  htpasswd:\n    realm: test\n    path: {folder}/htpasswd\n")
        test.addCleanup(self.stop)
        self.start()

    def start(self):
        self.process = subprocess.Popen([REGISTRY, "serve", str(self.folder / "registry.yml")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("the registry does not listen")

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def push(self, source, name):
        """As Docker would: the digest there is not the layout's."""
        subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", "--format", "v2s2", "--dest-tls-verify=false", "--dest-authfile", str(self.credentials),
                        source, f"docker://127.0.0.1:{self.port}/{name}"], check=True, capture_output=True)
        return f"127.0.0.1:{self.port}/{name}"


@unittest.skipUnless(TOOLS, "there is no skopeo or no umoci")
class ImagesOfACluster(unittest.TestCase):
    """Only one node may read the folder of images."""

    def setUp(self):
        folder = tempfile.mkdtemp(prefix="lambent-images-")
        self.addCleanup(shutil.rmtree, folder, True)
        self.folder = pathlib.Path(folder)
        self.folder.chmod(0o755)
        self.images = self.folder / "images"
        self.images.mkdir()
        program = compile_server(self.images)
        self.layout = Layout(self.images / "layout")
        noise = os.urandom(6 * MIB)
        self.digest = self.layout.add("server", [server_layer(program).file("srv/noise", noise).bytes()], Entrypoint=["/bin/server"],
                                      ExposedPorts={"9090/tcp": {}}, Env=["GREETING=hi"])

    def cluster(self, names="abc", reader="a", **more):
        cluster = Cluster(self, names=names, own_flags={reader: ("--mount-allow", str(self.images))}, **more)
        if more.get("told", True):
            cluster.wait_until_up()
        return cluster

    def deploy(self, cluster, node, name="server", image=None):
        folder = self.folder / "functions" / name
        folder.mkdir(parents=True, exist_ok=True)
        image = image or f"oci:{self.images}/layout:server"
        (folder / "lambent.toml").write_text(f'name = "{name}"\nkind = "http"\nimage = "{image}"\n')
        done = subprocess.run([str(PREFIX / "bin/lambent"), "deploy", str(folder)], capture_output=True, text=True, check=False,
                              env={**os.environ, "LAMBENT_ENDPOINT": cluster[node].endpoint})
        self.assertEqual(done.returncode, 0, done.stderr)

    def known_at(self, cluster, *nodes, seconds=60):
        for node in nodes:
            cluster.wait_for(lambda node=node: cluster[node].request("GET", "/v1/functions").json["functions"] != [], seconds)

    def state(self, cluster, node):
        return pathlib.Path(cluster[node].folder) / "state"

    def runs_at(self, cluster, node, name="server"):
        body = cluster[node].request("GET", f"/f/{name}/").body.decode()
        self.assertIn("GREETING=hi", body)
        self.assertIn("host=no", body)

    def test_an_image_of_a_layout_runs_on_all_nodes(self):
        cluster = self.cluster(policy="random")
        self.deploy(cluster, "b")
        self.known_at(cluster, "b", "c")
        for number in range(30):
            self.runs_at(cluster, "abc"[number % 3])
        ran = cluster.completed("server")
        self.assertTrue(all(ran.values()), ran)
        for node in "bc":
            self.assertEqual(len(list((self.state(cluster, node) / "images/ready").iterdir())), 1)
            cluster.wait_for(lambda node=node: not list(self.state(cluster, node).glob("image_copies/*/*/tree/**/*")))
            self.assertIn("image_fetched", cluster[node].log())
            self.assertNotIn("image_not_fetched", cluster[node].log())
        # What it was read from may go, and so may the first node.
        shutil.rmtree(self.images)
        cluster["a"].kill()
        cluster.wait_for(lambda: all(cluster.states(node)["a"] == "lost" for node in "bc"))
        cluster["b"].kill()
        cluster["b"].start()
        cluster.wait_for(lambda: cluster.states("b")["a"] == "lost")
        self.runs_at(cluster, "b")

    def test_archives_come_too(self):
        cluster = self.cluster("ab")
        for transport in ("oci-archive", "docker-archive"):
            name = transport.partition("-")[0]
            archive = self.images / f"{name}.tar"
            subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", f"oci:{self.images}/layout:server", f"{transport}:{archive}:it:1"], check=True)
            self.deploy(cluster, "a", name, f"{transport}:{archive}")
        cluster.wait_for(lambda: len(cluster["b"].request("GET", "/v1/functions").json["functions"]) == 2, 60)
        cluster.set_drained("a", True)
        for name in ("oci", "docker"):
            self.runs_at(cluster, "b", name)
            self.assertEqual(cluster.owner(name), "b")

    def test_what_comes_altered_or_is_cut_off_is_asked_for_again(self):
        cluster = self.cluster("ab", told=False)
        link = Link(self, cluster["a"].address[1])
        members = [{"node": "a", "address": f"http://127.0.0.1:{link.port}"}, {"node": "b", "address": cluster.addresses["b"]}]
        for name in "ab":
            cluster[name].request("PUT", "/v1/cluster/members", json.dumps({"source": "test", "home": "a", "members": members}))
        cluster.wait_until_up()
        link.cut_after = link.passed + 5 * MIB
        self.deploy(cluster, "a")
        cluster.wait_for(lambda: link.passed > link.cut_after, 60)
        before, link.cut_after, link.change = link.passed, None, (b"imageLayoutVersion", b"imageLayoutVersiom")
        cluster.wait_for(lambda: "other bytes came than were sent" in cluster["b"].log(), 60)
        self.assertEqual(list((self.state(cluster, "b") / "images/ready").iterdir()), [])
        # Requests go to a meanwhile.
        cluster.wait_for(lambda: cluster.states("b")["a"] == "up")
        self.runs_at(cluster, "b")
        self.assertEqual(cluster.completed("server", "a"), {"a": 1})
        link.change = None
        self.known_at(cluster, "b")
        self.assertLess(link.passed - before, 5 * MIB, "what came before the cut did not come again")

    def test_with_a_shared_catalog_it_comes_from_whichever_node_read_it(self):
        cluster = self.cluster(reader="b", flags=("--catalog", Postgres(self).url))
        cluster["a"].kill()
        for node in "bc":
            cluster.wait_for(lambda node=node: cluster.states(node)["a"] == "lost")
        self.deploy(cluster, "b")
        self.known_at(cluster, "c")
        cluster.set_drained("b", True)
        self.runs_at(cluster, "c")
        self.assertEqual(cluster.owner("server", "bc"), "c")

    @unittest.skipUnless(REGISTRY, "there is no registry to run (docker-registry)")
    def test_an_image_of_a_registry_comes_from_the_nodes_that_have_it(self):
        registry = Registry(self, self.folder)
        image = registry.push(f"oci:{self.images}/layout:server", "app:1")
        allowed = ("--image-registry", f"127.0.0.1:{registry.port}", "--catalog", Postgres(self).url)
        cluster = Cluster(self, flags=allowed, own_flags={"a": ("--registry-auth", str(registry.credentials))})
        cluster.wait_until_up()
        cluster["c"].kill()
        self.deploy(cluster, "a", image=image)
        # The registry does not let b have it.
        self.known_at(cluster, "b")
        self.assertIn("image_fetched", cluster["b"].log())
        self.assertIn("its registry does not let the worker have it", cluster["b"].log())
        # Nor again, after it was lost here.
        cluster["b"].kill()
        shutil.rmtree(self.state(cluster, "b") / "images")
        cluster["b"].start()
        cluster.wait_for(lambda: len(list((self.state(cluster, "b") / "images/ready").glob("*"))) == 1, 60)
        # And then there is none, nor the node that it came to first.
        registry.stop()
        cluster["a"].kill()
        cluster["c"].start()
        self.known_at(cluster, "c")
        self.assertIn("its registry did not serve it", cluster["c"].log())
        cluster["b"].kill()
        cluster.wait_for(lambda: cluster.states("c")["b"] == "lost")
        self.runs_at(cluster, "c")
        self.assertEqual(cluster.completed("server", "c"), {"c": 1})

    def cluster_whose_image_only_a_has(self):
        """(registry, cluster): 'server' was deployed at a while b was away; the registry, a and b do not run."""
        registry = Registry(self, self.folder)
        image = registry.push(f"oci:{self.images}/layout:server", "app:1")
        allowed = ("--image-registry", f"127.0.0.1:{registry.port}", "--catalog", Postgres(self).url)
        cluster = Cluster(self, "ab", flags=(*allowed, "--registry-auth", str(registry.credentials)))
        cluster.wait_until_up()
        cluster["b"].kill()
        self.deploy(cluster, "a", image=image)
        registry.stop()
        cluster["a"].kill()
        return registry, cluster

    @unittest.skipUnless(REGISTRY, "there is no registry to run (docker-registry)")
    def test_an_image_that_neither_its_registry_nor_a_node_has_comes_when_one_of_them_is_back(self):
        _, cluster = self.cluster_whose_image_only_a_has()
        cluster["b"].start()
        cluster.wait_for(lambda: "of the other nodes: node 'a' does not answer" in cluster["b"].log(), 60)
        with self.assertRaises(HttpError) as caught:
            cluster["b"].request("GET", "/f/server/")
        self.assertEqual(caught.exception.status, 503)
        cluster["a"].start()
        self.known_at(cluster, "b")

    @unittest.skipUnless(REGISTRY, "there is no registry to run (docker-registry)")
    def test_a_pull_that_fails_after_a_long_time_is_tried_again(self):
        registry, cluster = self.cluster_whose_image_only_a_has()
        # A deployment is answered after 20 seconds, and this one fails some seconds later.
        with socket.create_server(("127.0.0.1", registry.port)) as silent:
            silent.settimeout(0.2)
            cluster["b"].start()
            held, end = [], time.monotonic() + 90
            while "image_failed" not in cluster["b"].log():
                self.assertLess(time.monotonic(), end)
                try:
                    held.append((time.monotonic(), silent.accept()[0]))
                except TimeoutError:
                    pass
                for each in [each for each in held if time.monotonic() - each[0] > 13]:
                    held.remove(each)
                    each[1].close()
            for _, connection in held:
                connection.close()
        self.assertRegex(cluster["b"].log(), r"image_failed.*seconds\W+2[0-9]|image_failed.*seconds\W+[3-9][0-9]")
        registry.start()
        self.known_at(cluster, "b")

    def test_only_who_has_an_image_gets_it_by_its_digest(self):
        cluster = self.cluster("ab")
        self.deploy(cluster, "a")
        cluster["b"].delete("server")
        with self.assertRaises(HttpError) as caught:
            cluster["b"].request("POST", "/2015-03-31/functions", self.by_digest(f"oci:{self.folder}/elsewhere@{self.digest}"))
        self.assertEqual(caught.exception.status, 403)

    def by_digest(self, image):
        return json.dumps({"FunctionName": "taken", "PackageType": "Image", "Code": {"ImageUri": image}, "Role": "none"})


if __name__ == "__main__":
    unittest.main()
