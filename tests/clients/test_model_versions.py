"""Models with versions: folders in Triton's layout, rolls under load, and Triton's own client asking for versions."""
import json
import threading
import unittest

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from model_worker import WEIGHTS, ModelWorkerTest, lambent, matrix_model
from test_grpc_models import Front

ONE = np.ones((1, 4), dtype=np.float32)


def scores_of(version):
    """What version N answers to ONE: each version has other weights."""
    return ONE @ (WEIGHTS * version)


def input_of(client, values):
    given = client.InferInput("x", list(values.shape), "FP32")
    given.set_data_from_numpy(values)
    return given


class ModelVersionsTest(ModelWorkerTest):
    def client(self):
        client = triton.InferenceServerClient(self.worker.endpoint.removeprefix("http://"))
        self.addCleanup(client.close)
        return client

    def put(self, name, version, file="model.onnx"):
        folder = self.folder / "models" / name / str(version)
        folder.mkdir(parents=True)
        (folder / file).write_bytes(matrix_model(WEIGHTS * version))
        return folder.parent

    def deploy(self, *arguments):
        deployed = lambent(self.worker, "deploy", *arguments)
        self.assertEqual(deployed.returncode, 0, deployed.stderr)
        return deployed.stdout

    def asked(self, name, version="", module=triton, client=None):
        result = (client or self.client()).infer(name, [input_of(module, ONE)], model_version=version)
        return result.as_numpy("scores"), result.get_response()

    def versions_of(self, name):
        return [each["version"] for each in self.client().get_model_repository_index() if each["name"] == name]

    def test_a_folder_in_tritons_layout_is_served_by_version(self):
        folder = self.put("pair", 1)
        self.put("pair", 3)
        (folder / "config.pbtxt").write_text('name: "pair"\nplatform: "onnxruntime_onnx"\nversion_policy: { all {} }\n')
        said = self.deploy(folder)
        self.assertIn("published pair:1\n  x FP32[-1,4] -> scores FP32[-1,3]\npublished pair:3\n", said)
        self.assertIn("/v2/models/pair -> version 3", said)
        client = self.client()
        for version, weights in (("1", 1), ("3", 3), ("", 3)):
            scores, response = self.asked("pair", version)
            np.testing.assert_allclose(scores, scores_of(weights), rtol=1e-6)
            self.assertEqual(response["model_version"], str(weights))
            self.assertTrue(client.is_model_ready("pair", version))
            metadata = client.get_model_metadata("pair", version)
            self.assertEqual((metadata["name"], metadata["versions"]), ("pair", ["1", "3"]))
        self.assertEqual(self.versions_of("pair"), ["1", "3"])
        self.assertEqual(client.get_inference_statistics("pair", "1")["model_stats"][0]["version"], "1")
        self.assertFalse(client.is_model_ready("pair", "2"))
        with self.assertRaisesRegex(InferenceServerException, r"\[404\] model 'pair' has no version 2; it has 1,3"):
            self.asked("pair", "2")
        # Its alias is one like any other: a tenth of the requests, or back to the version before.
        moved = lambent(self.worker, "alias", "set", "pair", "serving", "1")
        self.assertEqual(moved.returncode, 0, moved.stderr)
        np.testing.assert_allclose(self.asked("pair")[0], scores_of(1), rtol=1e-6)
        again = self.deploy(folder)
        self.assertIn("unchanged pair:1\nunchanged pair:3\n", again)
        np.testing.assert_allclose(self.asked("pair")[0], scores_of(3), rtol=1e-6)

    def test_grpc_asks_for_versions_too(self):
        self.put("spoken", 1)
        self.deploy(self.put("spoken", 2), "--version-policy", "all")
        front = Front(self.worker)
        client = triton_grpc.InferenceServerClient(front.address)
        try:
            for version, weights in (("1", 1), ("2", 2), ("", 2)):
                scores, response = self.asked("spoken", version, triton_grpc, client)
                np.testing.assert_allclose(scores, scores_of(weights), rtol=1e-6)
                self.assertEqual(response.model_version, str(weights))
            self.assertEqual(client.get_model_metadata("spoken").versions, ["1", "2"])
            index = [each.version for each in client.get_model_repository_index().models if each.name == "spoken"]
            self.assertEqual(index, ["1", "2"])
            with self.assertRaisesRegex(InferenceServerException, r"NOT_FOUND.*no version 9; it has 1,2"):
                self.asked("spoken", "9", triton_grpc, client)
            self.assertFalse(client.is_model_ready("spoken", "9"))
        finally:
            client.close()
            front.close()

    def test_a_roll_to_a_new_version_loses_no_request(self):
        folder = self.put("rolling", 1)
        self.deploy(folder)
        over, failures, seen = threading.Event(), [], []

        def ask():
            client = triton.InferenceServerClient(self.worker.endpoint.removeprefix("http://"))
            last = 0
            try:
                while not over.is_set():
                    scores, response = self.asked("rolling", client=client)
                    version = int(response["model_version"])
                    np.testing.assert_allclose(scores, scores_of(version), rtol=1e-6)
                    self.assertGreaterEqual(version, last, "it goes forwards only")
                    last = version
                    seen.append(version)
            except Exception as failure:  # noqa: BLE001
                failures.append(failure)
            finally:
                client.close()

        clients = [threading.Thread(target=ask) for _ in range(6)]
        for client in clients:
            client.start()
        try:
            for version in (2, 3, 4):
                self.put("rolling", version)
                self.deploy(folder)
        finally:
            over.set()
            for client in clients:
                client.join()
        self.assertEqual(failures, [])
        self.assertEqual(set(seen) | {4}, {1, 2, 3, 4})
        self.assertEqual(self.asked("rolling")[1]["model_version"], "4")
        # The newest, and the one that served before it, to which requests may have been on their way.
        self.assertEqual(self.versions_of("rolling"), ["3", "4"])

    def test_a_version_that_cannot_be_loaded_changes_nothing(self):
        folder = self.put("careful", 1)
        self.deploy(folder)
        (self.put("careful", 2) / "2/model.onnx").write_bytes(b"no model")
        deployed = lambent(self.worker, "deploy", folder)
        self.assertNotEqual(deployed.returncode, 0)
        self.assertIn("careful:2: the model cannot be loaded", deployed.stderr)
        np.testing.assert_allclose(self.asked("careful")[0], scores_of(1), rtol=1e-6)
        self.assertEqual(self.versions_of("careful"), ["1"])
        # Its number is still free.
        (folder / "2/model.onnx").write_bytes(matrix_model(WEIGHTS * 2))
        self.assertIn("published careful:2", self.deploy(folder))

    def test_a_version_never_changes(self):
        folder = self.put("fixed", 1)
        self.deploy(folder)
        (folder / "1/model.onnx").write_bytes(matrix_model(WEIGHTS * 5))
        deployed = lambent(self.worker, "deploy", folder)
        self.assertNotEqual(deployed.returncode, 0)
        self.assertIn("a version never changes: call the new one 2", deployed.stderr)
        np.testing.assert_allclose(self.asked("fixed")[0], scores_of(1), rtol=1e-6)

    def test_one_file_can_be_a_version(self):
        file = self.folder / "single.onnx"
        file.write_bytes(matrix_model(WEIGHTS))
        self.deploy(file)
        self.assertEqual(self.versions_of("single"), ["1"])
        np.testing.assert_allclose(self.asked("single", "1")[0], scores_of(1), rtol=1e-6)
        for version in (4, 6):
            file.write_bytes(matrix_model(WEIGHTS * version))
            self.deploy(file, "--model-version", str(version))
        self.assertEqual(self.versions_of("single"), ["4", "6"])
        self.assertEqual(self.asked("single")[1]["model_version"], "6")
        file.write_bytes(matrix_model(WEIGHTS * 9))
        warned = lambent(self.worker, "deploy", file)
        self.assertEqual(warned.returncode, 0, warned.stderr)
        self.assertIn("requests that name no version still go to version 6", warned.stderr)
        np.testing.assert_allclose(self.asked("single")[0], scores_of(6), rtol=1e-6)
        file.write_bytes(matrix_model(WEIGHTS * 5))
        refused = lambent(self.worker, "deploy", file, "--model-version", "5")
        self.assertIn("numbers of versions only grow", refused.stderr)

    def test_a_repository_is_deployed_as_a_whole(self):
        for name, version in (("left", 1), ("right", 2)):
            folder = self.folder / "repository" / name / str(version)
            folder.mkdir(parents=True)
            (folder / "model.onnx").write_bytes(matrix_model(WEIGHTS * version))
        self.deploy(self.folder / "repository")
        for name, version in (("left", 1), ("right", 2)):
            np.testing.assert_allclose(self.asked(name)[0], scores_of(version), rtol=1e-6)

    def test_what_is_wrong_with_a_folder_is_told_before_anything_is_sent(self):
        folder = self.put("odd", 1, "weights.onnx")
        for text, said in (("", "has no model.onnx; it has weights.onnx"),
                           ('name: "other"', "it is of a model 'other', and the folder is 'odd'"),
                           ('platform: "tensorflow_graphdef"', "platform 'tensorflow_graphdef' is not served here"),
                           ("sequence_batching { }", "line 1, column 19"),
                           ("version_policy: { specific { versions: [1, 2] } }", "names version 2, which is not there")):
            (folder / "config.pbtxt").write_text(text)
            refused = lambent(self.worker, "deploy", folder)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(said, refused.stderr)
        (folder / "config.pbtxt").write_text('default_model_filename: "weights.onnx"\nmax_batch_size: 8\ndynamic_batching { }\n')
        dry = self.deploy(folder, "--dry-run")
        self.assertEqual(dry, "would be published odd:1\n")
        self.deploy(folder)
        np.testing.assert_allclose(self.asked("odd")[0], scores_of(1), rtol=1e-6)
        told = json.loads(self.deploy(folder, "--json"))
        self.assertEqual((told["versions"], told["serving"]), ([{"version": 1, "action": "unchanged"}], "1"))


if __name__ == "__main__":
    unittest.main()
