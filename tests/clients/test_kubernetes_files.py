"""The files for Kubernetes: the chart gives the manifest beside it, both fit the API of several versions of Kubernetes, and every option
that they give the worker is one of its own. No cluster runs here."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import kubernetes_validate
import yaml
from certificates import Authority
from harness import Worker

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "share/kubernetes"
CHART = FOLDER / "lambent"
VERSIONS = ("1.28", "1.31", "1.34")


def value_of(expression, values):
    """What the chart uses of Helm's templates: values, the element of a range, a sum, and YAML of a value, indented."""
    words = expression.split("|")[0].split()
    if words[0] == "add":
        return str(sum(int(value_of(word, values)) for word in words[1:]))
    if words[0] == "toYaml":
        return value_of(words[1], values)
    if re.fullmatch(r"\d+", words[0]):
        return words[0]
    found = values
    for name in filter(None, words[0].split(".")):
        found = found[name]
    return found


def rendered(text, values):
    def filled(line, scope):
        def replace(match):
            value = value_of(match[1], scope)
            if isinstance(value, dict):
                return f"\n{' ' * 8}".join(yaml.safe_dump(value).strip().split("\n"))
            return str(value)
        return re.sub(r"\{\{ (.*?) \}\}", replace, re.sub(r"\{\{- (.*?) \}\}", r"{{ \1 }}", line))

    def block(lines, scope):
        out = []
        while lines:
            line = lines.pop(0)
            directive = re.fullmatch(r"\s*\{\{- (range|if|end)\s*(.*?) ?\}\}", line)
            if directive is None:
                out.append(filled(line, scope))
            elif directive[1] == "end":
                return out
            else:
                value = value_of(directive[2], scope)
                body = [lines.pop(0) for _ in range(end_of(lines))]
                lines.pop(0)
                if directive[1] == "if":
                    out += block(body, scope) if value else []
                else:
                    for each in value:
                        out += block(list(body), each if isinstance(each, dict) else {"": each, "self": each})
        return out

    def end_of(lines):
        depth = 0
        for number, line in enumerate(lines):
            if re.match(r"\s*\{\{- (range|if)", line):
                depth += 1
            elif re.match(r"\s*\{\{- end", line):
                if depth == 0:
                    return number
                depth -= 1
        raise AssertionError("a block has no end")

    text = text.replace("{{ . }}", "{{ self }}")
    return "\n".join(block(text.split("\n"), {"Values": values}))


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.values = yaml.safe_load((CHART / "values.yaml").read_text())
        cls.documents = [yaml.safe_load(rendered(path.read_text(), cls.values)) for path in sorted((CHART / "templates").iterdir())]
        cls.manifest = list(yaml.safe_load_all((FOLDER / "daemonset.yaml").read_text()))

    @staticmethod
    def known_options():
        told = subprocess.run([pathlib.Path(os.environ["LAMBENT_PREFIX"]) / "bin/lambent-worker", "--help-all"], capture_output=True, text=True,
                              timeout=60).stdout
        return set(re.findall(r"^\s+(--[a-z-]+)", told, re.MULTILINE))

    def test_the_chart_gives_the_manifest(self):
        self.assertEqual(self.manifest, self.documents)

    def test_both_fit_the_api_of_kubernetes(self):
        for version in VERSIONS:
            for document in self.manifest:
                with self.subTest(version, kind=document["kind"]):
                    kubernetes_validate.validate(document, version, strict=True)

    def test_kuberay_starts_the_ray_that_was_tested(self):
        spec = yaml.safe_load((FOLDER / "raycluster.yaml").read_text())["spec"]
        tested = re.search("^ray==(.+)$", (pathlib.Path(__file__).parent / "ray-requirements.txt").read_text(), re.MULTILINE)[1]
        self.assertEqual(spec["rayVersion"], tested)
        for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
            image = group["template"]["spec"]["containers"][0]["image"]
            self.assertEqual(image.rpartition(":")[2], tested, image)

    def test_the_pods_of_kuberay_fit_the_api_and_their_workers_know_every_option(self):
        cluster = yaml.safe_load((FOLDER / "raycluster.yaml").read_text())
        # What KubeRay's own schema (v1) has; the file was held against all of it when it was written.
        self.assertEqual((cluster["apiVersion"], cluster["kind"]), ("ray.io/v1", "RayCluster"))
        self.assertLessEqual(set(cluster["spec"]), {"rayVersion", "enableInTreeAutoscaling", "headGroupSpec", "workerGroupSpecs"})
        (group,) = cluster["spec"]["workerGroupSpecs"]
        self.assertLessEqual(set(group), {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"})
        for version in VERSIONS:
            for template in (cluster["spec"]["headGroupSpec"]["template"], group["template"]):
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, **template}
                kubernetes_validate.validate(pod, version, strict=True)
        ray, worker = group["template"]["spec"]["containers"]
        self.assertEqual({each.partition("=")[0] for each in worker["args"]} - self.known_options(), set())
        # Ray reserves as many GPUs as the worker has, and its agent finds the worker where the file says.
        self.assertEqual(group["rayStartParams"]["num-gpus"], worker["resources"]["limits"]["nvidia.com/gpu"])
        (folder,) = [each["mountPath"] for each in ray["volumeMounts"] if each["name"] == "run"]
        self.assertIn(f"--run={folder}", worker["args"])
        self.assertIn(f'socket="{folder}/lambent.sock"', (FOLDER / "raycluster.yaml").read_text())

    def test_the_cdi_device_fits_its_specification_and_names_the_packages_folder(self):
        device = yaml.safe_load((FOLDER / "cdi-lambent.yaml").read_text())
        self.assertEqual(set(device), {"cdiVersion", "kind", "devices"})
        self.assertRegex(device["kind"], r"^[a-z0-9.-]+[.][a-z]+/[A-Za-z0-9_-]+$")
        (tools,) = device["devices"]
        self.assertEqual(set(tools), {"name", "containerEdits"})
        self.assertLessEqual(set(tools["containerEdits"]), {"env", "mounts", "deviceNodes", "hooks"})
        for mount in tools["containerEdits"]["mounts"]:
            self.assertLessEqual(set(mount), {"hostPath", "containerPath", "options", "type"})
            self.assertIn(f'PREFIX = "{mount["hostPath"][1:]}"', (ROOT / "tools/package/debian.py").read_text())

    def test_what_does_not_fit_is_found(self):
        broken = yaml.safe_load(yaml.safe_dump(self.manifest[0]))
        broken["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x"
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)

    def test_the_worker_knows_every_option(self):
        known = self.known_options()
        container = self.documents[0]["spec"]["template"]["spec"]["containers"][0]
        given = {argument.partition("=")[0] for argument in container["args"]}
        self.assertEqual(given - known, set())
        self.assertIn("--cluster-key", given)
        self.assertEqual([each for each in container["args"] if each.startswith("--cluster-node=")],
                         [f"--cluster-node={node['name']}={node['address']}" for node in self.values["nodes"]])

    def test_a_worker_starts_with_the_options_of_both_files_and_answers_the_probe(self):
        pod = yaml.safe_load((FOLDER / "raycluster.yaml").read_text())["spec"]["workerGroupSpecs"][0]["template"]["spec"]
        probe = self.documents[0]["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["httpGet"]
        self.assertEqual(probe["scheme"], "HTTPS")
        headers = {each["name"]: each["value"] for each in probe["httpHeaders"]}
        for container in (self.documents[0]["spec"]["template"]["spec"]["containers"][0], pod["containers"][1]):
            folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
            authority = Authority(folder)
            certificate, key = authority.issue("gpu1")
            (folder / "tls").mkdir()
            (folder / "cluster").mkdir()
            secrets = {"tls/tls.crt": certificate.read_text(), "tls/tls.key": key.read_text(), "tls/ca.crt": authority.certificate.read_text(),
                       "cluster/cluster.key": "k" * 40}
            for name, content in secrets.items():
                (folder / name).write_text(content)
                (folder / name).chmod(0o400)  # as the volumes have it
            given = dict(each.split("=", 1) for each in container["args"] if not each.startswith("--cluster-node="))
            listen = given.pop("--listen").replace("$(HOST_IP)", "127.0.0.1").replace(":8980", ":0")
            for name in ("--state", "--run", "--catalog"):  # folders of this test's, and no PostgreSQL
                given.pop(name, None)
            flags = [f"{name}={value}" for name, value in given.items()] + [each for each in container["args"] if each.startswith("--cluster-node=")]
            flags = [each.replace("/etc/lambent", str(folder)).replace("$(NODE_NAME)", "gpu1") for each in flags]
            self.assertEqual([each for each in flags if "$(" in each or "/lambent/" in each], [])
            with self.subTest(container["name"]):
                worker = Worker(*flags, gpu="none", listen=listen, tls=authority.context())
                self.addCleanup(worker.close)
                worker.address = ("127.0.0.1", worker.address[1])
                self.assertEqual(worker.request("GET", probe["path"], headers=headers).status, 200)

    def test_without_a_catalog_none_is_named(self):
        text = rendered((CHART / "templates/daemonset.yaml").read_text(), {**self.values, "catalogSecret": "", "runtimeClassName": ""})
        container = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]
        self.assertNotIn("CATALOG", text)
        self.assertNotIn("runtimeClassName", text)
        self.assertEqual([each for each in container["args"] if "catalog" in each], [])

    def test_chart_and_program_have_one_version(self):
        version = re.search(r"VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text())[1]
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual({chart["version"], chart["appVersion"], self.values["image"].rpartition(":")[2]}, {version})


if __name__ == "__main__":
    unittest.main()
