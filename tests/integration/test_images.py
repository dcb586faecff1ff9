"""Container images as functions, in a running worker: from layouts and archives that this test writes, good and hostile ones, and from a
registry on loopback where there is one."""

import base64
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
import unittest
import warnings

from harness import PREFIX, HttpError, Worker
from image_layouts import ARCHITECTURE, Layer, Layout, compile_server, server_layer
from test_ordinary_user import USER, UserWorker, reachable

LAMBENT = str(PREFIX / "bin/lambent")
TOOLS = shutil.which("skopeo") and shutil.which("umoci")
REGISTRY = shutil.which("docker-registry")
PASSWORD = "p4ssw0rd-of-the-registry"


def make_images(folder):
    """What the tests deploy, and the digest of each."""
    program = compile_server(folder)
    layout, digests = Layout(folder / "layout"), {}
    server = server_layer(program).bytes()

    def add(tag, *layers, **config):
        digests[tag] = layout.add(tag, [server, *layers], **{"Entrypoint": ["/bin/server"], **config})

    add("good", Cmd=["from", "the image"], Env=["GREETING=hi", "COLOUR=red"], WorkingDir="/srv", User="app", ExposedPorts={"9090/tcp": {}})
    add("port80", ExposedPorts={"80/tcp": {}}, User="1234")
    add("no_start", Entrypoint=[])
    add("no_program", Entrypoint=["/bin/missing"])
    add("shell", Entrypoint=["/bin/sh", "-c", "exec server"])
    add("ghost", User="ghost")
    add("other_machine", architecture="arm64" if ARCHITECTURE == "amd64" else "amd64")
    add("new_directory", WorkingDir="/made/up")
    # What one layer removes, another one must not have; what has no right place stays inside.
    add("whiteout", Layer().file("srv/secret", "x"), Layer().file("srv/.wh.secret", ""))
    add("outside", Layer().file("../../../../../../../tmp/lambent-escaped", "x").file("a/../../../../tmp/lambent-escaped", "x"))
    add("link", Layer().link("evil", "/tmp"), Layer().file("evil/lambent-escaped", "x"))
    add("hard_link", Layer().add("shadow", tarfile.LNKTYPE, target="/etc/shadow"))
    add("above", Layer().file(".wh...", ""))
    devices = Layer().add("null", tarfile.CHRTYPE, mode=0o666, devmajor=1, devminor=3).add("disk", tarfile.BLKTYPE, devmajor=8)
    add("devices", devices.file("bin/su", "x", mode=0o6755).add("pipe", tarfile.FIFOTYPE))
    add("no_tar", b"this is no tar" * 100)
    add("own_places", Layer().link("proc", "/etc").link("dev", "/tmp"))
    layout.add("corrupt", [Layer().file("only", "here")], broken=b"garbage")
    add("large", Layer().file("zeros", bytes(64 << 20)))
    return digests


class ImagesTest(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-images-"))
        cls.folder.chmod(0o755)
        cls.images = cls.folder / "images"
        cls.images.mkdir()
        cls.digests = make_images(cls.images)
        cls.worker = cls.start("--mount-allow", str(cls.images), *cls.flags)

    @classmethod
    def start(cls, *flags):
        return Worker(*flags, gpu="none", folder=cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.worker.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def manifest(self, name, image, more="", kind="http"):
        folder = self.folder / "functions" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lambent.toml").write_text(f'name = "{name}"\nkind = "{kind}"\nimage = "{image}"\n{more}\n')
        return str(folder)

    def lambent(self, *arguments, check=True):
        done = subprocess.run(
            [LAMBENT, *arguments], capture_output=True, text=True, check=False, env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint})
        if check:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def deploy(self, name, tag, more="", kind="http", check=True):
        return self.lambent("deploy", self.manifest(name, f"oci:../../images/layout:{tag}", more, kind), check=check)

    def refused(self, tag, words, more=""):
        done = self.deploy("refused", tag, more, check=False)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn(words, done.stderr)
        return done.stderr

    def get(self, name):
        answer = self.worker.request("GET", f"/f/{name}/").body.decode()
        return answer, dict(line.split("=", 1) for line in answer.splitlines() if "=" in line)

    def roots(self):
        return list((self.folder / "state/images/ready").glob("*/root"))

    def configuration(self, name):
        return json.loads(self.worker.request("GET", f"/2015-03-31/functions/{name}").body)


@unittest.skipUnless(TOOLS, "there is no skopeo or no umoci")
class LayoutTest(ImagesTest):
    def test_the_configuration_of_the_image_is_honoured(self):
        self.deploy("good", "good")
        text, seen = self.get("good")
        self.assertIn("arg=/bin/server\narg=from\narg=the image\n", text)
        self.assertEqual((seen["GREETING"], seen["COLOUR"], seen["cwd"]), ("hi", "red", "/srv"))
        self.assertEqual((seen["uid"], seen["HOME"]), ("1000", "/home/app"))
        self.assertEqual((seen["PORT"], seen["K_SERVICE"]), ("9090", "good"))
        self.assertEqual(seen["host"], "no")

    def test_the_function_says_otherwise(self):
        more = 'entry_point = ["server"]\ncommand = ["a b", "c"]\nworking_directory = "/home/app"\nport = 7000\n[environment]\nCOLOUR = "blue"'
        self.deploy("other", "good", more)
        text, seen = self.get("other")
        self.assertIn("arg=server\narg=a b\narg=c\n", text)
        self.assertEqual((seen["COLOUR"], seen["GREETING"], seen["cwd"], seen["PORT"]), ("blue", "hi", "/home/app", "7000"))

    def test_what_it_writes_is_its_own_and_ends_with_it(self):
        self.deploy("writes", "good")
        text, _ = self.get("writes")
        for line in ("write /etc/written=yes", "write /tmp/written=yes", "write /written=yes", "write /dev/written=no"):
            self.assertIn(line, text)
        for root in self.roots():
            self.assertEqual(list(root.rglob("written")), [])

    def test_a_port_below_1024_and_a_directory_that_is_missing(self):
        self.deploy("low", "port80")
        self.assertEqual(self.get("low")[1]["PORT"], "80")
        self.assertEqual(self.get("low")[1]["uid"], "1234")
        self.deploy("made", "new_directory")
        self.assertEqual(self.get("made")[1]["cwd"], "/made/up")

    def test_functions_of_one_image_share_it_and_its_digest_is_recorded(self):
        self.deploy("one", "good")
        roots = self.roots()
        for number in range(3):
            self.deploy(f"more{number}", "good", f'command = ["{number}"]')
        self.assertEqual(self.roots(), roots)
        shown = self.configuration("one")
        self.assertEqual(shown["Configuration"]["PackageType"], "Image")
        self.assertTrue(shown["Code"]["ResolvedImageUri"].endswith("@" + self.digests["good"]), shown["Code"])
        self.assertIn(self.digests["good"], self.lambent("ls", "--json").stdout)
        self.deploy("one", "good")
        functions = json.loads(self.lambent("ls", "--json").stdout)["functions"]
        self.assertEqual([one["revision"] for one in functions if one["name"] == "one"], [1])

    def test_two_deployments_of_one_image_pull_it_once(self):
        before = self.worker.log().count('"image_pulled"')
        threads = [threading.Thread(target=self.deploy, args=(f"both{number}", "whiteout")) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.get("both0")
        self.get("both1")
        self.assertEqual(self.worker.log().count('"image_pulled"') - before, 1)

    def test_what_a_layer_removes_is_gone(self):
        self.deploy("whiteout", "whiteout")
        root = [one for one in self.roots() if (one / "srv").exists()]
        self.assertTrue(root)
        for one in root:
            self.assertFalse((one / "srv/secret").exists())

    def test_hostile_layers_stay_inside(self):
        for tag in ("outside", "link"):
            self.deploy(tag, tag)
            self.get(tag)
        self.assertFalse(os.path.exists("/tmp/lambent-escaped"))
        self.refused("hard_link", "its layers cannot be unpacked")
        self.refused("above", "its layers cannot be unpacked")
        self.refused("no_tar", "its layers cannot be unpacked")
        self.refused("corrupt", "Digest did not match")
        self.assertEqual(list((self.folder / "state/images/work").iterdir()), [])
        self.assertTrue(self.images.exists())

    def test_devices_and_set_user_id_bits_have_no_effect(self):
        self.deploy("devices", "devices")
        self.get("devices")
        for root in self.roots():
            self.assertFalse([path for path in root.rglob("*") if path.is_block_device() or path.is_char_device()])
            if os.geteuid() == 0 and (root / "bin/su").exists():
                self.assertNotEqual((root / "bin/su").stat().st_uid, 0)

    def test_an_image_whose_own_places_are_links_hurts_itself_only(self):
        self.deploy("places", "own_places")
        with self.assertRaises(HttpError):
            self.get("places")
        self.deploy("after", "good")
        self.get("after")

    def test_images_that_cannot_run_are_refused_with_the_reason(self):
        self.refused("no_start", "neither an entry point nor a command")
        self.refused("ghost", "the image's user is 'ghost'")
        self.refused("other_machine", "this machine is linux/")
        self.refused("missing", "there is no such image or tag")
        self.refused("good", "has no runtime", 'runtime = "python3"')
        shutil.copytree(self.images / "layout", self.images / "locked")
        (self.images / "locked/index.json").chmod(0o600)
        if os.geteuid() == 0:
            done = self.lambent("deploy", self.manifest("bad", f"oci:{self.images}/locked:good"), check=False)
            self.assertIn("chmod -R a+rX", done.stderr)
        done = self.lambent("deploy", self.manifest("bad", "oci:/etc:x"), check=False)
        self.assertIn("may not be mounted", done.stderr)
        done = self.lambent("deploy", self.manifest("bad", "Not/A/Name"), check=False)
        self.assertIn("is no name of one", done.stderr)
        done = self.lambent("deploy", self.manifest("bad", "localhost:5000/x"), check=False)
        self.assertIn("--image-registry", done.stderr)

    def test_a_program_that_is_not_there_is_told_by_its_name(self):
        for tag, program in (("no_program", "/bin/missing"), ("shell", "/bin/sh")):
            self.deploy(tag, tag)
            with self.assertRaises(HttpError) as caught:
                self.get(tag)
            self.assertIn(program, caught.exception.body.decode())

    def test_archives_are_read_as_layouts_are(self):
        source = f"oci:{self.images}/layout:good"
        for transport in ("oci-archive", "docker-archive"):
            path = f"{self.images}/{transport}.tar"
            subprocess.run(["skopeo", "--insecure-policy", "copy", source, f"{transport}:{path}"], check=True, capture_output=True)
            self.lambent("deploy", self.manifest(transport, f"{transport}:{path}"))
            self.assertEqual(self.get(transport)[1]["GREETING"], "hi")

    def test_what_images_have_in_common_is_on_the_disk_once_and_the_others_own_is_not(self):
        for tag in ("good", "port80", "large"):
            self.deploy(tag.replace("_", "-"), tag)
        programs = [root / "bin/server" for root in self.roots()]
        self.assertGreaterEqual(len(programs), 3)
        self.assertEqual(len({program.stat().st_ino for program in programs if program.stat().st_mtime == 0}), 1)
        # A sandbox that writes to such a file has its own, and the others see nothing of it.
        self.deploy("writes-shared", "good")
        self.get("writes-shared")
        self.assertEqual(len({(root / "etc/passwd").read_bytes() for root in self.roots() if (root / "srv").exists()}), 1)

    def test_an_image_by_the_command_alone(self):
        self.lambent("deploy", "--image", f"oci:{self.images}/layout:good", "--name", "alone")
        self.assertEqual(self.get("alone")[1]["GREETING"], "hi")


@unittest.skipUnless(TOOLS and os.geteuid() == 0 and shutil.which("setpriv"), "only root can start a worker as another user")
class OrdinaryUserTest(ImagesTest):
    """Images of a worker without any rights: all files are its own user's, and so is what runs."""

    @classmethod
    def start(cls, *flags):
        if not reachable(PREFIX / "bin"):
            raise unittest.SkipTest(f"{PREFIX} is not readable for an ordinary user")
        os.chown(cls.folder, USER, USER)
        return UserWorker(*flags, gpu="none", folder=cls.folder)

    def test_it_runs_as_the_images_user_and_writes_to_its_root(self):
        self.deploy("plain", "good")
        text, seen = self.get("plain")
        self.assertEqual((seen["uid"], seen["cwd"], seen["host"]), ("1000", "/srv", "no"))
        for line in ("write /etc/written=yes", "write /written=yes", "write /dev/written=no"):
            self.assertIn(line, text)

    def test_hostile_layers_and_devices(self):
        self.deploy("devices", "devices")
        self.get("devices")
        self.refused("above", "its layers cannot be unpacked")
        self.assertEqual(list((self.folder / "state/images/work").iterdir()), [])

    def test_a_port_below_1024(self):
        self.deploy("low", "port80")
        self.assertEqual(self.get("low")[1]["PORT"], "80")


@unittest.skipUnless(TOOLS, "there is no skopeo or no umoci")
class BoundsTest(ImagesTest):
    flags = ("--images-size", "40M")

    def test_one_that_is_too_large_is_refused_and_leaves_nothing(self):
        self.refused("large", "--images-size")
        self.assertEqual(list((self.folder / "state/images/work").iterdir()), [])
        self.deploy("small", "good")
        self.get("small")

    def test_a_restart_and_the_source_going_away_change_nothing(self):
        self.deploy("stays", "good")
        self.worker.stop()
        moved = self.images / "moved"
        (self.images / "layout").rename(moved)
        try:
            self.worker.start()
            self.assertEqual(self.get("stays")[1]["GREETING"], "hi")
            self.lambent("invoke", "stays", check=False)
        finally:
            moved.rename(self.images / "layout")


class NoToolsTest(unittest.TestCase):
    def test_a_worker_without_skopeo_says_what_to_install(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-images-"))
        worker = Worker(gpu="none", folder=folder, environment={"PATH": "/nowhere"})
        try:
            body = {"FunctionName": "f", "Role": "r", "PackageType": "Image", "Code": {"ImageUri": "ghcr.io/a/b:1"}}
            with self.assertRaises(HttpError) as caught:
                worker.request("POST", "/2015-03-31/functions", json.dumps(body))
            self.assertIn(b"apt install skopeo umoci", caught.exception.body)
        finally:
            worker.close()
            shutil.rmtree(folder, ignore_errors=True)


@unittest.skipUnless(TOOLS and REGISTRY, "there is no registry to run (docker-registry)")
class RegistryTest(ImagesTest):
    @classmethod
    def setUpClass(cls):
        with socket.create_server(("127.0.0.1", 0)) as free:
            cls.port = free.getsockname()[1]
        cls.credentials = pathlib.Path(tempfile.mkdtemp(prefix="lambent-images-")) / "auth.json"
        basic = base64.b64encode(b"me:" + PASSWORD.encode()).decode()
        cls.credentials.write_text(json.dumps({"auths": {f"127.0.0.1:{cls.port}": {"auth": basic}}}))
        cls.credentials.chmod(0o600)
        cls.flags = ("--image-registry", f"127.0.0.1:{cls.port}", *cls.worker_auth())
        super().setUpClass()
        config = cls.folder / "registry.yml"
        config.write_text(
            f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {cls.folder}/registry\n  delete:\n    enabled: true\n"
            f"http:\n  addr: 127.0.0.1:{cls.port}\n{cls.registry_auth()}")
        cls.start_registry()

    @classmethod
    def worker_auth(cls):
        return ()

    @classmethod
    def registry_auth(cls):
        return ""

    @classmethod
    def start_registry(cls):
        with open(cls.folder / "registry.log", "ab") as log:
            cls.registry = subprocess.Popen([REGISTRY, "serve", str(cls.folder / "registry.yml")], stdout=log, stderr=subprocess.STDOUT)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", cls.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError("the registry does not listen")

    @classmethod
    def stop_registry(cls):
        cls.registry.terminate()
        cls.registry.wait()

    @classmethod
    def tearDownClass(cls):
        cls.stop_registry()
        super().tearDownClass()
        shutil.rmtree(cls.credentials.parent, ignore_errors=True)

    def push(self, tag, name):
        subprocess.run(
            ["skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", "--dest-authfile", str(self.credentials), f"oci:{self.images}/layout:{tag}",
             f"docker://127.0.0.1:{self.port}/{name}"], check=True, capture_output=True)

    def image(self, name):
        return f"127.0.0.1:{self.port}/{name}"

    def test_a_tag_is_what_it_named_when_the_function_was_deployed(self):
        self.push("good", "app:1")
        self.lambent("deploy", self.manifest("tagged", self.image("app:1")))
        self.assertEqual(self.get("tagged")[1]["GREETING"], "hi")
        uri = self.configuration("tagged")["Code"]
        self.assertEqual(uri["ImageUri"], self.image("app:1"))
        self.assertIn("app:1@sha256:", uri["ResolvedImageUri"])
        self.push("port80", "app:1")
        self.lambent("config", "set", "tagged", "timeout=7", check=False)
        self.assertEqual(self.get("tagged")[1]["GREETING"], "hi")
        self.assertIn("updated", self.lambent("deploy", self.manifest("tagged", self.image("app:1"))).stdout)
        self.assertNotIn("GREETING", self.get("tagged")[1])
        self.lambent("rollback", "tagged")
        self.assertEqual(self.get("tagged")[1]["GREETING"], "hi")

    def requests_for(self, digest):
        return sum(f'"GET /v2/{name}/blobs/{digest}' in line for line in (self.folder / "registry.log").read_text(errors="replace").splitlines()
                   for name in ("first", "second"))

    def test_a_layer_that_two_images_have_is_fetched_once_and_kept_once(self):
        blobs = self.images / "layout/blobs/sha256"
        layers = {tag: [one["digest"] for one in json.loads((blobs / self.digests[tag].partition(":")[2]).read_text())["layers"]]
                  for tag in ("whiteout", "link")}
        self.assertEqual(layers["whiteout"][0], layers["link"][0])
        for name, tag in (("first", "whiteout"), ("second", "link")):
            self.push(tag, f"{name}:1")
            self.lambent("deploy", self.manifest(name, self.image(f"{name}:1")))
            self.assertIn("arg=/bin/server", self.get(name)[0])
        self.assertEqual(self.requests_for(layers["link"][0]), 1, "the layer that both have")
        self.assertEqual(self.requests_for(layers["link"][1]), 1, "one that only the second has")
        kept = list((self.folder / "state/images/ready").glob(f"*/layout/blobs/sha256/{layers['link'][0].partition(':')[2]}"))
        self.assertGreaterEqual(len(kept), 2)
        self.assertEqual(len({path.stat().st_ino for path in kept}), 1)
        self.assertFalse([path for path in kept if path.is_symlink()])
        self.assertEqual(list((self.folder / "state/images/work").iterdir()), [])
        # The second one needs nothing of the first.
        self.lambent("rm", "first")
        self.worker.stop()
        self.worker.start()
        self.assertIn("arg=/bin/server", self.get("second")[0])

    def test_what_is_not_there_and_a_registry_that_is_gone(self):
        self.push("good", "there:1")
        done = self.lambent("deploy", self.manifest("nowhere", self.image("there:2")), check=False)
        self.assertIn("there is no such image or tag", done.stderr)
        self.lambent("deploy", self.manifest("there", self.image("there:1")))
        self.stop_registry()
        try:
            self.assertEqual(self.get("there")[1]["GREETING"], "hi")
            done = self.lambent("deploy", self.manifest("late", self.image("late:1")), check=False)
            self.assertIn("its registry did not serve it", done.stderr)
        finally:
            self.start_registry()


class PrivateRegistryTest(RegistryTest):
    """One that wants credentials, which the operator gives in a file that only the worker reads."""

    @classmethod
    def worker_auth(cls):
        return ("--registry-auth", str(cls.credentials))

    @classmethod
    def registry_auth(cls):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import crypt

            hashed = crypt.crypt(PASSWORD, crypt.mksalt(crypt.METHOD_BLOWFISH))
        (cls.folder / "htpasswd").write_text(f"me:{hashed}\n")
        return f"auth:\n  htpasswd:\n    realm: test\n    path: {cls.folder}/htpasswd\n"

    def test_no_message_and_no_log_has_the_password(self):
        self.push("good", "private:1")
        self.lambent("deploy", self.manifest("private", self.image("private:1")))
        self.assertEqual(self.get("private")[1]["GREETING"], "hi")
        self.assertNotIn(PASSWORD, self.worker.log())
        self.assertEqual(list((self.folder / "state/images").rglob("auth.json")), [])


@unittest.skipUnless(TOOLS and REGISTRY, "there is no registry to run (docker-registry)")
class WithoutCredentialsTest(PrivateRegistryTest):
    @classmethod
    def worker_auth(cls):
        return ()

    test_a_tag_is_what_it_named_when_the_function_was_deployed = None
    test_a_layer_that_two_images_have_is_fetched_once_and_kept_once = None
    test_what_is_not_there_and_a_registry_that_is_gone = None

    def test_no_message_and_no_log_has_the_password(self):
        self.push("good", "private:1")
        done = self.lambent("deploy", self.manifest("private", self.image("private:1")), check=False)
        self.assertIn("--registry-auth", done.stderr)


@unittest.skipUnless(TOOLS and REGISTRY, "there is no registry to run (docker-registry)")
class OwnCredentialsTest(WithoutCredentialsTest):
    """A tenant keeps its own as a secret, and shares neither them nor what they give."""

    def test_no_message_and_no_log_has_the_password(self):
        self.push("good", "own:1")
        refused = self.lambent("deploy", self.manifest("own", self.image("own:1")), check=False)
        self.assertIn("registry-auth", refused.stderr)
        self.lambent("secrets", "set", "registry-auth", "--from-file", str(self.credentials))
        self.addCleanup(self.lambent, "secrets", "rm", "registry-auth", check=False)
        self.lambent("deploy", self.manifest("own", self.image("own:1")))
        self.assertEqual(self.get("own")[1]["GREETING"], "hi")
        self.assertNotIn(PASSWORD, self.worker.log())
        self.assertEqual(list((self.folder / "state/images").rglob("auth.json")), [])
        # Who has none is not given what is here, also not by its digest.
        resolved = self.configuration("own")["Code"]["ResolvedImageUri"]
        by_digest = resolved.replace("own:1@", "own@")
        self.lambent("deploy", self.manifest("known", by_digest))
        self.lambent("secrets", "rm", "registry-auth")
        self.lambent("deploy", self.manifest("own", self.image("own:1")), check=False)
        self.lambent("deploy", self.manifest("own", resolved))  # it has that one
        self.lambent("tenants", "create", "other")
        done = self.lambent("deploy", self.manifest("foreign", by_digest), "--tenant", "other", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("does not let the worker have it", done.stderr)
        wrong = self.folder / "wrong.json"
        wrong.write_text('{"credHelpers": {"ghcr.io": "evil"}}')
        self.lambent("secrets", "set", "registry-auth", "--from-file", str(wrong))
        done = self.lambent("deploy", self.manifest("own2", self.image("own:1")), check=False)
        self.assertIn("has no credentials of registries", done.stderr)


if __name__ == "__main__":
    unittest.main()
