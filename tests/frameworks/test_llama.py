"""llama-cpp-python, of which PyPI has only sources, from a wheel that was built once: in a handler, and its own server behind OpenAI's API.
The model is made here: tiny_gguf.py."""
import http.client
import json
import unittest

from frameworks import FrameworkTest
from tiny_gguf import tiny_gguf

HANDLER = """
import llama_cpp

MODEL = llama_cpp.Llama("/models/tiny.gguf", n_ctx=256, n_threads=1, verbose=False)


def handler(event, context):
    answer = MODEL(event["prompt"], max_tokens=8, temperature=0, repeat_penalty=1.0)
    return {"text": answer["choices"][0]["text"], "prompt_tokens": answer["usage"]["prompt_tokens"]}
"""
MOUNT = '\n[[mounts]]\nvolume = "models"\nat = "/models"\n'
MANIFEST = 'name = "complete"\nruntime = "python3"\nhandler = "app.handler"\nmemory = "2G"\n[python]\nrequirements = ["llama-cpp-python"]\n' + MOUNT
SERVER = """
name = "server"
kind = "http"
command = ["python3", "-m", "llama_cpp.server", "--model", "/models/tiny.gguf", "--model_alias", "tiny", "--n_ctx", "256", "--n_threads", "1", "--port", "8080"]
runtime = "python3"
readiness = "/v1/models"
timeout_s = 120
memory = "2G"
openai_models = ["tiny"]

[python]
requirements = ["llama-cpp-python[server]"]
""" + MOUNT


class LlamaTest(FrameworkTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "tiny.gguf").write_bytes(tiny_gguf())
        cls.lambent(cls("lambent"), "volumes", "create", "models")
        cls.lambent(cls("lambent"), "volumes", "put", "models", str(cls.folder / "tiny.gguf"))

    def post(self, path, body):
        """The answer's status and bytes."""
        connection = http.client.HTTPConnection(*self.worker.address, timeout=120)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def test_a_handler_and_the_packages_own_server_complete_alike(self):
        self.lambent("deploy", str(self.write("complete", HANDLER, MANIFEST)))
        hello, other = (self.answer("complete", {"prompt": prompt}) for prompt in ("hello", "a cat"))
        self.assertEqual(self.answer("complete", {"prompt": "hello"}), hello)
        self.assertNotEqual(hello["text"], other["text"])
        self.assertEqual(hello["prompt_tokens"], len("hello") + 2)  # its first token, a blank, and a byte each

        self.lambent("deploy", str(self.write("server", "", SERVER)))
        asked = {"model": "tiny", "prompt": "hello", "max_tokens": 8, "temperature": 0, "repeat_penalty": 1.0}
        status, body = self.post("/v1/completions", asked)
        self.assertEqual(status, 200, body)
        self.assertEqual(json.loads(body)["choices"][0]["text"], hello["text"])
        status, body = self.post("/v1/completions", {**asked, "stream": True})
        self.assertEqual(status, 200, body)
        lines = [line.removeprefix("data: ") for line in body.decode().splitlines() if line.startswith("data: ")]
        self.assertEqual(lines.pop(), "[DONE]")
        streamed = "".join(json.loads(line)["choices"][0]["text"] for line in lines)
        self.assertGreater(len(streamed), 1)
        self.assertTrue(hello["text"].startswith(streamed), streamed)  # the package drops the last bytes of a stream
        status, body = self.post("/v1/chat/completions", {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3})
        self.assertEqual((status, json.loads(body)["choices"][0]["message"]["role"]), (200, "assistant"))
        self.assertEqual([model["id"] for model in json.loads(self.worker.request("GET", "/v1/models").body)["data"]], ["tiny"])
        status, body = self.post("/v1/completions", {**asked, "model": "none"})
        self.assertEqual((status, json.loads(body)["error"]["code"]), (404, "model_not_found"))


if __name__ == "__main__":
    unittest.main()
