"""Volumes on several nodes: any node takes them, each brings what its functions mount, and what becomes of that when the way is slow,
cut or lies, when the disk is too small, and when the node that keeps them is gone."""
import base64
import hashlib
import io
import json
import os
import pathlib
import random
import socket
import sys
import threading
import time
import unittest
import zipfile

import test_layers as layers
from cluster_world import SlowLink
from harness import PREFIX, HttpError, make_zip
from tenants import Caller, Operator
from test_cluster import Cluster

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402

MIB = 1 << 20
# What it sees of a file: its digest, and the node by the file that the test put there.
READ = """
import hashlib
def handler(event, context):
    with open("/weights/" + event["path"], "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
"""

READ_LAYER = make_zip({"app.py": "import hashlib, words\ndef handler(event, context):\n"
                                 "  return [words.WORD, hashlib.sha256(open('/opt/lib/file', 'rb').read()).hexdigest()]"})


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def zip_with_program():
    """bin/tool, which may be executed, and a link to it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, mode, text in (("bin/tool", 0o100755, "#!/bin/sh\necho it ran\n"), ("bin/alias", 0o120777, "tool")):
            entry = zipfile.ZipInfo(name)
            entry.create_system, entry.external_attr = 3, mode << 16
            archive.writestr(entry, text)
    return content.getvalue()


def status_of(call, *arguments, **options):
    try:
        return call(*arguments, **options).status
    except HttpError as error:
        return error.status


class Link(SlowLink):
    """The way to the node that keeps the volumes: of its answers so many bytes a second, with words changed, or cut off after some."""

    def __init__(self, test, port):
        super().__init__(test, port, 0)
        self.rate, self.cut_after, self.passed, self.change = None, None, 0, None

    def carry(self, source, target):
        from_keeper = source.getpeername()[1] == self.target
        try:
            while data := source.recv(65536):
                if from_keeper:
                    self.passed += len(data)
                    if self.cut_after is not None and self.passed > self.cut_after:
                        break
                    if self.rate:
                        time.sleep(len(data) / self.rate)
                    if self.change:
                        data = data.replace(*self.change)
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class VolumesOfACluster(unittest.TestCase):
    """a keeps the volumes. What is invoked at a node runs there if all others are drained."""

    def volume(self, cluster, name, files, at="a"):
        cluster[at].request("PUT", f"/v1/volumes/{name}")
        self.put(cluster, name, files, at)

    def put(self, cluster, name, files, at="a"):
        for path, content in files.items():
            cluster[at].request("PUT", f"/v1/volumes/{name}/files/{path}?size={len(content)}&sha256={sha256(content)}", content)

    def deploy(self, cluster, volume, at="a", name="read", **tags):
        return cluster[at].create_python(name, READ, tags={"lambent:mounts": f"{volume}:/weights", **tags})

    def read(self, cluster, node, path, **options):
        return cluster[node].invoke("read", {"path": path}, **options)

    def copies(self, cluster, node):
        """The files of all copies that the node has, by their paths in volumes. The node may remove some meanwhile (os.walk passes over those)."""
        folder = pathlib.Path(cluster[node].folder) / "state/volume_copies"
        found = [pathlib.Path(at, name).relative_to(folder).parts for at, _, names in os.walk(folder) for name in names]
        return sorted("/".join(parts[1:2] + parts[3:]) for parts in found if len(parts) > 3 and parts[2] == "tree")

    def counted(self, cluster, node, name):
        return sum(float(line.split()[-1]) for line in cluster[node].metrics().splitlines() if line.startswith(name))

    def behind_link(self, names="ab", flags=()):
        """b reaches a by a link."""
        cluster = Cluster(self, names=names, told=False, flags=flags)
        link = Link(self, cluster["a"].address[1])
        for name in names:
            members = [{"node": each, "address": cluster.addresses[each]} for each in names]
            if name == "b":
                members[0]["address"] = f"http://127.0.0.1:{link.port}"
            cluster[name].request("PUT", "/v1/cluster/members", json.dumps({"source": "test", "home": "a", "members": members}))
        for name in names:
            cluster.wait_for(lambda name=name: set(cluster.states(name).values()) == {"up"})
        return cluster, link


class OnThreeNodes(VolumesOfACluster):
    def setUp(self):
        self.cluster = Cluster(self, policy="random")
        self.cluster.wait_until_up()

    def test_what_is_put_at_any_node_is_listed_got_and_mounted_at_all(self):
        files = {"model/weights.bin": noise(9 * MIB), "model/config.json": b"{}"}
        self.volume(self.cluster, "weights", files, at="b")
        for node in "abc":
            listed = self.cluster[node].request("GET", "/v1/volumes/weights/files").json["files"]
            self.assertEqual({each["path"]: each["sha256"] for each in listed}, {path: sha256(content) for path, content in files.items()})
            self.assertEqual(self.cluster[node].request("GET", "/v1/volumes/weights/files/model/weights.bin").body, files["model/weights.bin"])
        own = self.cluster["b"].request("GET", "/v1/volumes", headers={"X-Lambent-Only-Here": "true"}).json["volumes"]
        self.assertEqual(own, [])
        self.deploy(self.cluster, "weights", at="c")
        for number in range(30):
            self.assertEqual(self.read(self.cluster, "abc"[number % 3], "model/weights.bin").json, sha256(files["model/weights.bin"]))
        ran = self.cluster.completed("read")
        self.assertTrue(all(ran.values()), ran)
        for node in "bc":
            self.assertEqual(self.copies(self.cluster, node), ["weights/model/config.json", "weights/model/weights.bin"])
            self.assertEqual(self.counted(self.cluster, node, "lambent_volume_fetched_bytes_total"), 9 * MIB + 2)
            self.assertEqual(self.counted(self.cluster, node, 'lambent_volume_fetches_total{outcome="fetched"}'), 1)
        self.assertEqual(self.copies(self.cluster, "a"), [])

    def test_the_python_client_puts_and_removes_at_any_node(self):
        with Client(self.cluster["c"].endpoint) as client:
            client.volumes.create("weights")
            folder = self.cluster.folder / "model"
            folder.mkdir()
            (folder / "large").write_bytes(noise(5 * MIB))
            client.volumes.put("weights", str(folder))
            client.volumes.get("weights", "large", str(folder / "copy"))
            self.assertEqual((folder / "copy").read_bytes(), noise(5 * MIB))
        self.assertEqual(status_of(self.cluster["b"].request, "DELETE", "/v1/volumes/weights"), 200)
        self.assertEqual(self.cluster["a"].request("GET", "/v1/volumes").json["volumes"], [])

    def test_what_is_changed_is_seen_by_those_that_run_and_what_is_removed_goes_from_all(self):
        self.volume(self.cluster, "weights", {"model": b"one", "other": b"1"}, at="b")
        self.deploy(self.cluster, "weights")
        for _ in range(30):
            for node in "abc":
                self.read(self.cluster, node, "model")
            if all(self.cluster.completed("read").values()):
                break
        self.put(self.cluster, "weights", {"model": b"two"}, at="c")
        seen = {}

        def all_see_it():
            for node in "abc":
                for _ in range(6):
                    seen[node] = self.read(self.cluster, node, "model").json
                    if seen[node] != sha256(b"two"):
                        return False
            return True
        self.cluster.wait_for(all_see_it, 10)
        self.cluster["b"].request("DELETE", "/v1/volumes/weights/files/other")
        self.cluster.wait_for(lambda: [self.copies(self.cluster, node) for node in "bc"] == [["weights/model"]] * 2, 10)
        with self.assertRaises(HttpError) as caught:
            self.cluster["b"].request("DELETE", "/v1/volumes/weights")
        self.assertEqual(caught.exception.json["error"]["code"], "FAILED_PRECONDITION")
        self.cluster["c"].delete("read")
        self.cluster["b"].request("DELETE", "/v1/volumes/weights")
        self.cluster.wait_for(lambda: [self.copies(self.cluster, node) for node in "bc"] == [[]] * 2, 10)

    def test_a_new_deployment_finds_the_files_that_were_put_before_it(self):
        self.volume(self.cluster, "weights", {"v0": b"0"})
        for version in range(1, 6):
            path = f"v{version}"
            self.put(self.cluster, "weights", {path: path.encode()}, at="b")
            # Another revision each time, so that nothing that runs is asked.
            name = f"read{version}"
            self.deploy(self.cluster, "weights", at="c", name=name)
            for node in "abc":
                self.assertEqual(self.cluster[node].invoke(name, {"path": path}).json, sha256(path.encode()))

    def test_without_its_keeper_functions_run_and_volumes_are_not_changed(self):
        self.volume(self.cluster, "weights", {"model": b"one"})
        self.deploy(self.cluster, "weights")
        for _ in range(30):
            for node in "bc":
                self.read(self.cluster, node, "model")
            if all(self.cluster.completed("read").values()):
                break
        self.cluster["a"].kill()
        self.cluster.wait_for(lambda: all(self.cluster.states(node)["a"] == "lost" for node in "bc"))
        for node in "bc":
            self.assertEqual(self.read(self.cluster, node, "model").json, sha256(b"one"))
            with self.assertRaises(HttpError) as caught:
                self.cluster[node].request("PUT", "/v1/volumes/weights/files/model", b"two")
            self.assertEqual((caught.exception.status, caught.exception.json["error"]["code"]), (503, "UNAVAILABLE"))
            self.assertIn("node 'a' keeps volumes and layers", caught.exception.json["error"]["message"])
        # And those that a node never had are not there.
        self.cluster["b"].kill()
        folder = pathlib.Path(self.cluster["c"].folder) / "state"
        self.cluster["c"].kill()
        self.cluster["c"].start()
        self.cluster.wait_for(lambda: self.cluster.states("c")["a"] == "lost")
        self.assertTrue((folder / "volume_copies.json").exists())
        self.assertEqual(self.read(self.cluster, "c", "model").json, sha256(b"one"))


class Layers(VolumesOfACluster):
    """Of a layer comes its zip, and what functions see is made of it on each node."""

    def layered(self, cluster, at="c", content=b"of b"):
        files = {"python/words.py": "WORD = 'b'", "lib/file": content}
        self.assertEqual(layers.publish(cluster["b"], "words", files)["Version"], 1)
        cluster[at].create("layered", READ_LAYER, tags={"lambent:layers": "words:1"})

    def known_at(self, cluster, *nodes):
        for node in nodes:
            cluster.wait_for(lambda node=node: cluster[node].request("GET", "/v1/functions").json["functions"] != [])

    def composed(self, cluster, node):
        return sorted(path.name for path in (pathlib.Path(cluster[node].folder) / "state/layers").glob("*/.composed/*") if path.is_dir())

    def test_a_layer_is_published_at_any_node_and_its_functions_run_at_all(self):
        cluster = Cluster(self, policy="random")
        cluster.wait_until_up()
        self.layered(cluster)
        self.known_at(cluster, "b", "c")
        for number in range(30):
            self.assertEqual(cluster["abc"[number % 3]].invoke("layered").json, ["b", sha256(b"of b")])
        ran = cluster.completed("layered")
        self.assertTrue(all(ran.values()), ran)
        for node in "bc":
            self.assertEqual(self.counted(cluster, node, 'lambent_volume_fetches_total{outcome="fetched"}'), 1)
            self.assertEqual(self.composed(cluster, node), self.composed(cluster, "a"))
        # Versions that go leave their functions what they have, and functions run without the first node, also after kill -9.
        cluster["c"].request("DELETE", "/2018-10-31/layers/words/versions/1")
        cluster["a"].kill()
        cluster.wait_for(lambda: all(cluster.states(node)["a"] == "lost" for node in "bc"))
        for node in "bc":
            cluster[node].kill()
            cluster[node].start()
        for node in "bc":
            cluster.wait_for(lambda node=node: cluster.states(node)["a"] == "lost")
            self.assertEqual(cluster[node].invoke("layered").json, ["b", sha256(b"of b")])

    def test_a_call_waits_for_its_layers_and_takes_no_place(self):
        cluster, link = self.behind_link()
        content = noise(4 * MIB)
        self.layered(cluster, "a", content)
        self.known_at(cluster, "b")
        cluster.set_drained("a", True)
        link.rate = 4 * MIB
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(cluster["b"].invoke("layered"))) for _ in range(3)]
        for thread in threads:
            thread.start()

        def live():
            return [(each["phase"], each["wait_reason"]) for each in cluster["b"].request("GET", "/v1/activity/live").json["invocations"]]
        cluster.wait_for(lambda: live() == [("queued", "files_coming")] * 3)
        self.assertEqual(cluster["b"].sandboxes(), [])
        for thread in threads:
            thread.join()
        self.assertEqual([each.json for each in answers], [["b", sha256(content)]] * 3)
        self.assertLess(link.passed, 7 * MIB, "it came once for all")

    def test_what_was_cut_off_goes_on_and_altered_layers_are_refused(self):
        cluster, link = self.behind_link()
        content = noise(12 * MIB)
        self.layered(cluster, "a", content)
        self.known_at(cluster, "b")
        cluster.set_drained("a", True)
        link.cut_after = link.passed + 9 * MIB
        with self.assertRaises(HttpError) as caught:
            cluster["b"].invoke("layered")
        self.assertEqual(caught.exception.status, 503)
        link.cut_after, link.change = None, (b"PK\x01\x02", b"PK\x01\x03")
        cluster.wait_for(lambda: cluster.states("b")["a"] == "draining")
        with self.assertRaises(HttpError) as caught:
            cluster["b"].invoke("layered")
        self.assertIn(b"other bytes came than were sent", caught.exception.body)
        self.assertEqual(self.composed(cluster, "b"), [])
        link.change, before = None, link.passed
        self.assertEqual(cluster["b"].invoke("layered").json, ["b", sha256(content)])
        self.assertLess(link.passed - before, 9 * MIB, "what came before the cut did not come again")

    def test_programs_and_links_of_a_layer_stay_what_they_are(self):
        cluster = Cluster(self, names="ab")
        cluster.wait_until_up()
        body = {"Content": {"ZipFile": base64.b64encode(zip_with_program()).decode()}}
        cluster["b"].request("POST", "/2018-10-31/layers/tools/versions", json.dumps(body))
        cluster["b"].create_python("runs", "import subprocess\ndef handler(event, context):\n"
                                   "  return subprocess.check_output(['/opt/bin/alias'], text=True)", tags={"lambent:layers": "tools:1"})
        self.known_at(cluster, "b")
        cluster.set_drained("a", True)
        self.assertEqual(cluster["b"].invoke("runs").json, "it ran\n")
        self.assertEqual(cluster.owner("runs"), "b")

    def test_layers_that_were_published_before_the_cluster_come_to_all_nodes_too(self):
        cluster = Cluster(self, "ab")
        flags = cluster["a"].flags
        cluster["a"].stop()
        cluster["a"].flags = ()  # no node of a cluster
        cluster["a"].start()
        self.assertEqual(layers.publish(cluster["a"], "words", {"python/words.py": "WORD = 'old'"})["Version"], 1)
        body = {"Content": {"ZipFile": base64.b64encode(zip_with_program()).decode()}}
        cluster["a"].request("POST", "/2018-10-31/layers/tools/versions", json.dumps(body))
        cluster["a"].stop()
        cluster["a"].flags = flags
        cluster["a"].start()
        cluster.wait_until_up()
        cluster["b"].create_python("layered", "import subprocess, words\ndef handler(event, context):\n"
                                   "  return [words.WORD, subprocess.check_output(['/opt/bin/alias'], text=True)]",
                                   tags={"lambent:layers": "words:1,tools:1"})
        self.known_at(cluster, "b")
        cluster.set_drained("a", True)
        # They are packed when the function is deployed, which may take a moment.
        cluster.wait_for(lambda: status_of(cluster["b"].invoke, "layered") == 200)
        self.assertEqual(cluster["b"].invoke("layered").json, ["old", "it ran\n"])
        self.assertEqual(cluster.owner("layered"), "b")
        self.assertEqual(self.composed(cluster, "b"), self.composed(cluster, "a"))

    def test_composed_layers_give_way_unless_a_sandbox_has_them(self):
        cluster = Cluster(self, names="ab", flags=("--volume-copies", "12M"))
        cluster.wait_until_up()
        for name in ("one", "two"):
            # 2 MiB of zip and 4 of files.
            layers.publish(cluster["a"], name, {"python/words.py": f"WORD = '{name}'", "lib/file": random.Random(name).randbytes(2 * MIB).hex().encode()})
            cluster["a"].create(f"has-{name}", READ_LAYER, tags={"lambent:layers": f"{name}:1"})
        cluster.wait_for(lambda: len(cluster["b"].request("GET", "/v1/functions").json["functions"]) == 2)
        cluster.set_drained("a", True)
        self.assertEqual(cluster["b"].invoke("has-one").json[0], "one")
        first = self.composed(cluster, "b")
        with self.assertRaises(HttpError) as caught:
            cluster["b"].invoke("has-two")
        self.assertEqual(caught.exception.headers["x-lambent-code"], "RESOURCE_EXHAUSTED")
        self.assertIn(b"--volume-copies", caught.exception.body)
        self.assertEqual(self.composed(cluster, "b"), first)
        self.assertEqual(cluster["b"].invoke("has-one").json[0], "one")
        cluster["b"].tag("has-one", {"lambent:keep-alive": "1"})

        def its_sandbox_ends():
            cluster["b"].invoke("has-one")  # of the new revision, once b has it
            time.sleep(2)
            return cluster["b"].sandboxes() == []
        cluster.wait_for(its_sandbox_ends, 30)
        self.assertEqual(cluster["b"].invoke("has-two").json[0], "two")
        cluster.wait_for(lambda: len(self.composed(cluster, "b")) == 1)
        self.assertNotEqual(self.composed(cluster, "b"), first)
        self.assertLess(self.counted(cluster, "b", "lambent_volume_copies_bytes"), 12 * MIB)


class WhereFilesAre(VolumesOfACluster):
    def test_a_function_starts_where_its_files_are(self):
        cluster = Cluster(self)
        cluster.wait_until_up()
        self.volume(cluster, "weights", {"model": noise(MIB)})
        names = [f"read{each}" for each in range(6)]
        for name in names:
            self.deploy(cluster, "weights", name=name)

        def absent(node):
            return len(cluster[node].request("GET", "/v1/cluster/report").json["absent"])
        cluster.wait_for(lambda: absent("b") == absent("c") == 6)
        time.sleep(1.5)  # until reports have reached the others
        for name in names:
            cluster["b"].invoke(name, {"path": "model"})
            self.assertEqual(cluster.owner(name), "a")
        self.assertEqual(self.copies(cluster, "b") + self.copies(cluster, "c"), [])
        # Where there is no other way they are brought.
        cluster.set_drained("ac", True)
        cluster["b"].invoke(names[0], {"path": "model"})
        self.assertEqual(cluster.owner(names[0], "bc"), "b")
        cluster.wait_for(lambda: absent("b") == 0)


class OnABadWay(VolumesOfACluster):
    def test_what_was_acknowledged_runs_once_its_files_can_come(self):
        cluster = Cluster(self, names="ab")
        cluster.wait_until_up()
        self.volume(cluster, "weights", {"model": b"one"})
        self.deploy(cluster, "weights")
        cluster.set_drained("a", True)
        # b knows the function.
        cluster.wait_for(lambda: [each["name"] for each in cluster["b"].request("GET", "/v1/functions").json["functions"]] == ["read"])
        cluster["a"].kill()
        cluster.wait_for(lambda: cluster.states("b")["a"] == "lost")
        with self.assertRaises(HttpError) as caught:
            self.read(cluster, "b", "model")
        self.assertEqual(caught.exception.status, 503)
        identity = self.read(cluster, "b", "model", kind="Event").headers["x-amzn-requestid"]
        cluster["a"].start()
        result = f"/v1/invocations/{identity}"
        cluster.wait_for(lambda: cluster["b"].request("GET", result).status == 200, 30)
        self.assertEqual(cluster["b"].request("GET", result).json, sha256(b"one"))

    def test_a_call_that_waits_for_files_says_so_and_takes_no_place(self):
        cluster, link = self.behind_link()
        content = noise(8 * MIB)
        self.volume(cluster, "weights", {"model": content})
        self.deploy(cluster, "weights")
        cluster.set_drained("a", True)
        link.rate = 4 * MIB
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.read(cluster, "b", "model"))) for _ in range(4)]
        for thread in threads:
            thread.start()

        def live():
            return [(each["phase"], each["wait_reason"]) for each in cluster["b"].request("GET", "/v1/activity/live").json["invocations"]]
        cluster.wait_for(lambda: live() == [("queued", "files_coming")] * 4)
        self.assertEqual(cluster["b"].sandboxes(), [])
        self.assertEqual(self.counted(cluster, "b", "lambent_volume_fetches_under_way"), 1)
        for thread in threads:
            thread.join()
        self.assertEqual([each.json for each in answers], [sha256(content)] * 4)
        self.assertEqual({each.headers["x-lambent-wait-reason"] for each in answers}, {"files_coming"})
        self.assertLess(link.passed, 12 * MIB, "it came once for all four")
        self.assertIn("volume_fetched", cluster["b"].log())
        link.rate = None
        warm = self.read(cluster, "b", "model")
        self.assertNotIn("x-lambent-wait-reason", warm.headers)

    def test_a_client_that_leaves_and_a_cancelled_call_wait_no_longer(self):
        cluster, link = self.behind_link()
        self.volume(cluster, "weights", {"model": noise(8 * MIB)})
        self.deploy(cluster, "weights")
        cluster.set_drained("a", True)
        link.rate = MIB
        reply = self.read(cluster, "b", "model", kind="Event")
        identity = reply.headers["x-amzn-requestid"]
        cluster.wait_for(lambda: len(cluster["b"].request("GET", "/v1/activity/live").json["invocations"]) == 1)
        cancelled = cluster["b"].request("POST", f"/v1/invocations/{identity}/cancel")
        self.assertEqual(cancelled.status, 200)
        cluster.wait_for(lambda: cluster["b"].request("GET", "/v1/activity/live").json["invocations"] == [])

    def test_what_was_cut_off_goes_on_where_it_was_also_after_kill_9(self):
        cluster, link = self.behind_link()
        content = noise(32 * MIB)
        self.volume(cluster, "weights", {"model": content})
        self.deploy(cluster, "weights")
        cluster.set_drained("a", True)
        link.cut_after = link.passed + 20 * MIB
        with self.assertRaises(HttpError) as caught:
            self.read(cluster, "b", "model")
        self.assertEqual(caught.exception.status, 503)
        self.assertIn(b"volume 'weights' cannot be brought from node 'a'", caught.exception.body)
        cluster["b"].kill()
        link.cut_after, link.passed = None, 0
        cluster["b"].start()
        members = [{"node": "a", "address": f"http://127.0.0.1:{link.port}"}, {"node": "b", "address": cluster.addresses["b"]}]
        cluster["b"].request("PUT", "/v1/cluster/members", json.dumps({"source": "test", "home": "a", "members": members}))
        cluster.wait_for(lambda: cluster.states("b")["a"] == "draining")
        self.assertEqual(self.read(cluster, "b", "model").json, sha256(content))
        self.assertLess(self.counted(cluster, "b", "lambent_volume_fetched_bytes_total"), 20 * MIB)

    def test_bytes_that_come_altered_are_refused_and_not_kept(self):
        cluster, link = self.behind_link()
        self.volume(cluster, "weights", {"model": b"a true word"})
        self.deploy(cluster, "weights")
        cluster.set_drained("a", True)
        link.change = (b"a true word", b"a lying one")
        with self.assertRaises(HttpError) as caught:
            self.read(cluster, "b", "model")
        self.assertIn(b"other bytes came than were sent", caught.exception.body)
        self.assertEqual(self.copies(cluster, "b"), [])
        link.change = None
        self.assertEqual(self.read(cluster, "b", "model").json, sha256(b"a true word"))

    def test_a_list_of_files_that_makes_no_sense_is_refused(self):
        cluster, link = self.behind_link()
        self.volume(cluster, "weights", {"model": b"1", "other": b"2"})
        self.deploy(cluster, "weights")
        cluster.set_drained("a", True)
        link.change = (b'"path":"model"', b'"path":"../..l"')
        with self.assertRaises(HttpError) as caught:
            self.read(cluster, "b", "model")
        self.assertEqual(caught.exception.status, 503)
        self.assertIn(b"cannot be read", caught.exception.body)
        self.assertEqual(self.copies(cluster, "b"), [])


class OnSmallDisks(VolumesOfACluster):
    def test_copies_give_way_and_what_is_too_large_is_refused(self):
        cluster = Cluster(self, names="ab", flags=("--volume-copies", "8M"))
        cluster.wait_until_up()
        for name, size in (("one", 5), ("two", 6), ("large", 9)):
            self.volume(cluster, name, {"model": noise(size * MIB)})
            self.deploy(cluster, name, name=f"read-{name}", **{"lambent:keep-alive": "1"})
        cluster.set_drained("a", True)
        for name, size in (("one", 5), ("two", 6)):
            # The sandbox of the last one has to go first.
            cluster.wait_for(lambda: cluster["b"].sandboxes() == [])
            self.assertEqual(cluster["b"].invoke(f"read-{name}", {"path": "model"}).json, sha256(noise(size * MIB)))
            self.assertEqual(self.copies(cluster, "b"), [f"{name}/model"])
        cluster.wait_for(lambda: cluster["b"].sandboxes() == [])
        with self.assertRaises(HttpError) as caught:
            cluster["b"].invoke("read-large", {"path": "model"})
        self.assertEqual(caught.exception.headers["x-lambent-code"], "RESOURCE_EXHAUSTED")
        self.assertIn(b"--volume-copies", caught.exception.body)


class OfTenants(VolumesOfACluster):
    def test_volumes_are_their_tenants_on_every_node_and_count_once(self):
        cluster = Cluster(self, names="ab", flags=("--auth", "tokens"))
        operators = {name: Operator(cluster[name], cluster.folder / f"{name}.sock") for name in "ab"}

        def states(name):
            return {member["node"]: member["state"] for member in operators[name].request("GET", "/v1/cluster").json["members"]}
        for name in "ab":
            cluster.wait_for(lambda name=name: set(states(name).values()) == {"up"})
        callers = {}
        for tenant in "red", "blue":
            operators["a"].create_tenant(tenant, disk_bytes=4 * MIB)
            cluster.wait_for(lambda tenant=tenant: tenant in [each["name"] for each in operators["b"].request("GET", "/v1/tenants").json["tenants"]])
            for name in "ab":
                callers[tenant, name] = Caller(cluster[name], operators[name].create_token(tenant)["secret"])
            callers[tenant, "b"].request("PUT", "/v1/volumes/weights")
            callers[tenant, "b"].request("PUT", "/v1/volumes/weights/files/model", f"of {tenant}".encode())
            callers[tenant, "b"].create_python("read", READ, tags={"lambent:mounts": "weights:/weights"})
        operators["a"].request("POST", "/v1/cluster/nodes/a/drain")
        cluster.wait_for(lambda: states("b")["a"] == "draining")
        for tenant in "red", "blue":
            self.assertEqual(callers[tenant, "b"].invoke("read", {"path": "model"}).json, sha256(f"of {tenant}".encode()))
        # A copy takes nothing of the quota.
        callers["red", "b"].request("PUT", "/v1/volumes/weights/files/large", noise(3 * MIB))
        self.assertEqual(callers["red", "b"].invoke("read", {"path": "model"}).json, sha256(b"of red"))
        self.assertEqual(callers["red", "b"].status_of("PUT", "/v1/volumes/weights/files/more", noise(2 * MIB))[0], 429)
        # What nodes ask each other is no client's.
        for path in ("", "/blue/weights/files", "/blue/weights/content?path=model&sha256=" + sha256(b"of blue") + "&offset=0&count=7"):
            self.assertEqual(callers["red", "a"].status_of("GET", "/v1/cluster/volumes" + path)[0], 403)


if __name__ == "__main__":
    unittest.main()
