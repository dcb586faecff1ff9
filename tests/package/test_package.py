"""What `./dev package` makes: the same bytes each time, of nothing that a machine may lack, ready where it is unpacked."""
import contextlib
import functools
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import unittest

import packaged
import archives
import contents
import symbols


@functools.cache
def unpacked():
    """The unpacked tarball, in a folder whose name has a space; removed at the end of the program."""
    unpacked.kept = folder = tempfile.TemporaryDirectory(prefix="lambent package ")
    with tarfile.open(packaged.tarball()) as archive:
        archive.extractall(folder.name, filter="tar")
    os.chmod(folder.name, 0o755)
    (top,) = pathlib.Path(folder.name).iterdir()
    return top


class ReproducibleTest(unittest.TestCase):
    def test_another_place_time_zone_language_and_mask_give_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as other:
            before = os.umask(0o077)
            try:
                packaged.make(other, TZ="Asia/Kathmandu", LC_ALL="C", TMPDIR=other)
            finally:
                os.umask(before)
            for path in sorted(packaged.packages().iterdir()):
                self.assertEqual(path.read_bytes(), pathlib.Path(other, path.name).read_bytes(), path.name)

    def test_archives_have_the_time_and_the_order_that_they_are_given(self):
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder, "made")
            for name in ("b/a", "a", "B", "ä"):
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).write_text(name)
            os.link(made / "a", made / "c")
            with tarfile.open(fileobj=io.BytesIO(archives.tar(made, "top", 1000000000))) as archive:
                self.assertEqual(archive.getnames(), ["top", "top/B", "top/a", "top/b", "top/b/a", "top/c", "top/ä"])
                self.assertEqual({entry.mtime for entry in archive}, {1000000000})
                self.assertEqual(archive.extractfile("top/c").read(), b"a")

    def test_the_target_product_builds_all_that_a_package_contains(self):
        lists = (packaged.ROOT / "tools" / "CMakeLists.txt").read_text()
        built = set(re.search(r"add_custom_target\(product DEPENDS([^)]*)\)", lists)[1].split())
        # The checkpoint program is built with the shim.
        self.assertEqual(contents.TARGETS - built, {"lambent_checkpoint"})

    def test_programs_name_no_folder_of_this_machine(self):
        folder = unpacked()
        for path in symbols.elf_files(folder):
            # Not assertNotIn, which would print the whole program.
            self.assertFalse(str(packaged.ROOT).encode() in path.read_bytes(), path.name)


class ContentTest(unittest.TestCase):
    def test_every_program_and_library_runs_with_the_oldest_c_library_that_is_promised(self):
        folder = unpacked()
        self.assertGreater(len(list(symbols.elf_files(folder))), 30)
        highest, offences = symbols.check(folder)
        self.assertEqual(offences, [])
        self.assertLessEqual(symbols.number(highest), symbols.number("2.34"))

    def test_each_verb_has_its_manual_page(self):
        pages = {path.name for path in (unpacked() / contents.MANUAL).iterdir()}
        self.assertLess({"lambent.1", "lambent-invoke.1", "lambent-serve.1", "lambent-objects.1"}, pages)
        self.assertIn("--otlp\\-endpoint", (unpacked() / contents.MANUAL / "lambent-serve.1").read_text().replace("\\-\\-", "--"))

    def test_the_check_of_versions_can_fail(self):
        folder = unpacked()
        _, offences = symbols.check(folder, most="2.17")
        self.assertTrue(any("bin/lambent-worker needs GLIBC_" in each for each in offences), offences)
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "shared.cc")
            source.write_text("#include <iostream>\nint main() { std::cout << 1; }\n")
            subprocess.run(["g++", source, "-o", pathlib.Path(folder, "shared")], check=True)
            source.unlink()
            _, offences = symbols.check(folder)
            self.assertIn("shared needs libstdc++.so.6", offences)

    def test_what_is_preloaded_into_functions_needs_the_c_library_only(self):
        folder = unpacked()
        for name in ("lib/shim/liblambent_shim.so", "lib/shim/liblambent_shim_nvml.so", "lib/forward/libcuda.so.1"):
            libraries, _ = symbols.needs(folder / name)
            self.assertLessEqual(set(libraries), {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, name)

    def test_all_belongs_to_root_and_is_readable_for_everybody(self):
        with tarfile.open(packaged.tarball()) as archive:
            for entry in archive:
                self.assertEqual((entry.uid, entry.gid, entry.uname, entry.gname), (0, 0, "root", "root"), entry.name)
                wanted = 0o777 if entry.issym() else 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
                self.assertEqual(entry.mode, wanted, entry.name)


class RunsAnywhereTest(unittest.TestCase):
    """Unpacked into a temporary folder, started with an empty environment and no PATH."""

    def run_bare(self, folder, *words, **options):
        return subprocess.run([folder / "bin/lambent", *words], capture_output=True, text=True, env={}, cwd="/", timeout=60, **options)

    @contextlib.contextmanager
    def served(self, folder):
        """A worker of the tarball: its process, its address and what it has logged so far."""
        with tempfile.TemporaryDirectory(prefix="lambent-run-") as run:
            log = pathlib.Path(run, "log")
            with log.open("wb") as errors:
                worker = subprocess.Popen([folder / "bin/lambent", "serve", "--state", f"{run}/state", "--run", f"{run}/run", "--listen", "none"],
                                          env={}, cwd="/", stdout=subprocess.DEVNULL, stderr=errors)
            try:
                self.wait_for(lambda: worker.poll() is not None or pathlib.Path(run, "run/endpoint").exists(), log.read_text)
                self.assertIsNone(worker.poll(), log.read_text())
                yield worker, f"unix:{run}/run/lambent.sock", log.read_text
            finally:
                worker.send_signal(signal.SIGTERM)
                worker.wait(timeout=60)
            self.assertEqual(worker.returncode, 0, log.read_text()[-2000:])

    def wait_for(self, condition, told):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline, told())
            time.sleep(0.02)

    def call(self, folder, endpoint, name, event, key):
        called = self.run_bare(folder, "invoke", name, "-d", json.dumps(event), "--endpoint", endpoint)
        self.assertEqual(called.returncode, 0, called.stderr)
        self.assertIs(json.loads(called.stdout)[key], True, called.stdout)

    def test_from_the_tarball_to_the_first_answer(self):
        folder = unpacked()
        with self.served(folder) as (_, endpoint, _):
            for example, name, event, key in [("01_python_vector_add", "vector_add", {"count": 1000, "check": True}, "correct"),
                                              ("05_native_handler", "native", {"kernel": "matmul", "check": True}, "correct")]:
                deployed = self.run_bare(folder, "deploy", folder / "examples" / example, "--endpoint", endpoint)
                self.assertEqual(deployed.returncode, 0, deployed.stderr)
                self.call(folder, endpoint, name, event, key)

    def test_unpacked_over_a_worker_that_runs_it_takes_its_place(self):
        with tempfile.TemporaryDirectory(prefix="lambent-installed-") as installed:
            folder = pathlib.Path(installed)
            unpack = ["tar", "xzf", packaged.tarball(), "--strip-components=1", "-C", folder]
            subprocess.run(unpack, check=True)
            with self.served(folder) as (worker, endpoint, log):
                deployed = self.run_bare(folder, "deploy", folder / "examples/01_python_vector_add", "--endpoint", endpoint)
                self.assertEqual(deployed.returncode, 0, deployed.stderr)
                program = pathlib.Path(f"/proc/{worker.pid}/exe")
                before = program.stat().st_ino
                subprocess.run(unpack, check=True)
                worker.send_signal(signal.SIGUSR2)
                self.wait_for(lambda: log().count("listening") > 1, log)
                self.assertNotEqual(program.stat().st_ino, before)
                self.assertEqual(program.resolve(), (folder / "bin/lambent-worker").resolve())
                self.call(folder, endpoint, "vector_add", {"count": 1000, "check": True}, "correct")

    def test_every_program_tells_what_it_is_for(self):
        folder = unpacked()
        self.assertIn("--policy", self.run_bare(folder, "help", "serve").stdout)
        version = self.run_bare(folder, "simulate", "--help")
        self.assertEqual(version.returncode, 0, version.stderr)


class MaterialsTest(unittest.TestCase):
    def setUp(self):
        self.document = json.loads(packaged.listing().read_text())
        self.packages = {each["name"]: each for each in self.document["packages"]}

    def test_what_is_linked_in_is_listed_with_version_and_licence(self):
        for name in ("sqlite3", "libarchive", "libseccomp", "openssl", "zlib", "gcc-12"):
            self.assertIn("linked in: ", self.packages[name]["comment"], name)
            self.assertRegex(self.packages[name]["versionInfo"], r"^\d")
            self.assertNotIn(self.packages[name]["licenseDeclared"], ("", "NOASSERTION"))
        for name in ("nlohmann-json3", "tomlplusplus", "cli11", "spdlog"):
            self.assertIn("headers compiled in", self.packages[name]["comment"], name)
        self.assertIn("not contained: ", self.packages["glibc"]["comment"])

    def test_what_only_tests_use_is_not_listed(self):
        self.assertFalse({"googletest", "prometheus", "python3.11"} & set(self.packages))

    def test_every_reference_leads_to_an_element_and_every_element_is_reached(self):
        elements = {each["SPDXID"] for each in self.document["packages"]}
        self.assertEqual(len(elements), len(self.document["packages"]))
        reached = {each["relatedSpdxElement"] for each in self.document["relationships"]}
        self.assertEqual(reached, elements)
        for each in elements:
            self.assertRegex(each, r"^SPDXRef-[A-Za-z0-9.-]+$")
        named = set(re.findall(r"LicenseRef-[A-Za-z0-9.-]+", json.dumps([p["licenseDeclared"] for p in self.document["packages"]])))
        self.assertEqual(named, {each["licenseId"] for each in self.document.get("hasExtractedLicensingInfos", [])})

    def test_the_licence_of_each_comes_along(self):
        folder = unpacked()
        texts = {path.name for path in (folder / "share/licences").iterdir()}
        self.assertEqual(texts, set(self.packages) - {"lambent"})
        self.assertIn("spdx.json", " ".join(path.name for path in folder.iterdir()))

    def test_the_document_is_valid_by_the_rules_of_spdx(self):
        checker = packaged.ROOT / ".venv/bin/pyspdxtools"
        if not checker.exists():
            self.skipTest("spdx-tools is not installed in .venv; ./dev test installs it")
        done = subprocess.run([checker, "-i", packaged.listing()], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))


@unittest.skipUnless(shutil.which("dpkg-deb"), "needs dpkg-deb")
class DebianPackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lambent-deb-")
        cls.tree = pathlib.Path(cls.folder.name, "tree")
        subprocess.run(["dpkg-deb", "-x", packaged.deb(), cls.tree], check=True)
        subprocess.run(["dpkg-deb", "-e", packaged.deb(), cls.tree / "DEBIAN"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def field(self, name):
        return subprocess.run(["dpkg-deb", "-f", packaged.deb(), name], check=True, capture_output=True, text=True).stdout.strip()

    def test_it_depends_on_the_c_library_that_the_programs_need(self):
        highest, _ = symbols.check(self.tree)
        self.assertIn(f"libc6 (>= {highest})", self.field("Depends"))
        self.assertIn("sqlite3 (= ", self.field("Built-Using"))

    def test_the_flags_of_the_service_are_the_operator_s_to_change(self):
        self.assertEqual((self.tree / "DEBIAN/conffiles").read_text(), "/etc/lambent/worker.env\n")
        flags = re.search(r"^LAMBENT_WORKER_FLAGS=(.*)$", (self.tree / "etc/lambent/worker.env").read_text(), re.M)[1].split()
        # A group that is there; the rest is read by the worker itself.
        flags[flags.index("lambent")] = "root"
        done = subprocess.run([self.tree / "usr/lib/lambent/bin/lambent-worker", *flags, "--state", "/proc/nowhere"], capture_output=True,
                              text=True)
        self.assertIn("the state folder /proc/nowhere", done.stderr)

    def test_the_command_is_found_and_finds_the_rest(self):
        link = self.tree / "usr/bin/lambent"
        self.assertEqual(os.readlink(link), "../lib/lambent/bin/lambent")
        done = subprocess.run([link, "serve", "--help"], capture_output=True, text=True)
        self.assertIn("--policy", done.stdout)

    def test_its_scripts_are_shell(self):
        for name in ("postinst", "prerm", "postrm"):
            subprocess.run(["sh", "-n", self.tree / "DEBIAN" / name], check=True)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze")
    def test_systemd_finds_no_fault_with_the_unit_and_calls_its_exposure_low(self):
        unit = self.tree / "usr/lib/systemd/system/lambent.service"
        text = unit.read_text()
        with tempfile.TemporaryDirectory() as folder:
            checked = pathlib.Path(folder, "lambent.service")
            # Its program is not installed here, and its documentation neither.
            checked.write_text(text.replace("/usr/lib/lambent/", f"{self.tree}/usr/lib/lambent/").replace(
                "file:///usr/share/doc", f"file://{self.tree}/usr/share/doc"))
            verified = subprocess.run(["systemd-analyze", "verify", "--man=no", checked], capture_output=True, text=True)
            faults = [line for line in verified.stderr.splitlines() if "lambent" in line]
            self.assertEqual((verified.returncode, faults), (0, []), verified.stderr)
            scored = subprocess.run(["systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=40", checked],
                                    capture_output=True, text=True)
            self.assertEqual(scored.returncode, 0, scored.stdout[-400:] + scored.stderr)


if __name__ == "__main__":
    unittest.main()
