"""OpenAI's own client, unmodified, against functions that speak its API: the example's server in a sandbox, behind a worker."""
import asyncio
import base64
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import urllib.request

import openai

from harness import PREFIX, Worker, make_zip
from tenants import TokenWorker

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/30_openai_server"
LAMBENT = str(PREFIX / "bin/lambent")
HELLO = [{"role": "user", "content": "what does a model do"}]


def deploy(worker, folder, token=""):
    deployed = subprocess.run([LAMBENT, "deploy", str(folder), "--endpoint", worker.endpoint], capture_output=True, text=True,
                              timeout=120, env={**os.environ, "LAMBENT_TOKEN": token})
    assert deployed.returncode == 0, deployed.stderr
    return deployed.stdout


def client_of(worker, key="none", **options):
    return openai.OpenAI(base_url=worker.endpoint + "/v1", api_key=key, max_retries=0, timeout=60, **options)


class OpenaiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.worker = Worker(gpu="none")
        cls.addClassCleanup(cls.worker.close)
        deploy(cls.worker, EXAMPLE)

    def setUp(self):
        self.client = client_of(self.worker)
        self.addCleanup(self.client.close)

    def test_models_are_listed(self):
        self.assertEqual([(each.id, each.owned_by) for each in self.client.models.list()],
                         [("example/tiny-embeddings", "default"), ("tiny", "default")])
        self.assertEqual(self.client.models.retrieve("tiny").id, "tiny")
        self.assertEqual(self.client.models.retrieve("example/tiny-embeddings").object, "model")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.models.retrieve("gpt")
        self.assertEqual((caught.exception.code, caught.exception.param), ("model_not_found", "model"))

    def test_a_chat_is_answered_by_a_function_that_starts_with_it(self):
        answer = self.client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=8)
        self.assertEqual(answer.choices[0].message.role, "assistant")
        words = answer.choices[0].message.content.split()
        self.assertTrue(0 < len(words) <= 8 and answer.usage.completion_tokens == len(words), words)
        again = self.client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=8)
        self.assertEqual(again.choices[0].message.content, answer.choices[0].message.content)

    def test_a_stream_comes_word_by_word(self):
        whole = self.client.chat.completions.create(model="tiny", messages=HELLO).choices[0]
        pieces, reasons = [], []
        for event in self.client.chat.completions.create(model="tiny", messages=HELLO, stream=True):
            pieces.append(event.choices[0].delta.content)
            reasons.append(event.choices[0].finish_reason)
        self.assertGreater(len(pieces), 3)
        self.assertEqual("".join(pieces), whole.message.content)
        self.assertEqual(reasons[-1], whole.finish_reason)
        texts = [event.choices[0].text for event in self.client.completions.create(model="tiny", prompt="a model", stream=True)]
        self.assertEqual("".join(texts), self.client.completions.create(model="tiny", prompt="a model").choices[0].text)

    def test_the_first_event_comes_before_the_last_is_made(self):
        request = urllib.request.Request(self.worker.endpoint + "/v1/completions", headers={"Content-Type": "application/json"},
                                         data=json.dumps({"model": "tiny", "prompt": "a", "stream": True}).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
            self.assertRegex(answer.headers["X-Lambent-Invocation-Id"], "^[0-9a-f-]{36}$")
            first = answer.read1()
            self.assertNotIn(b"[DONE]", first)
            self.assertIn(b"[DONE]", answer.read())

    def test_embeddings_come_as_vectors(self):
        answer = self.client.embeddings.create(model="example/tiny-embeddings", input=["a function", "a function runs", "zzz qqq"])
        near, far = (sum(a * b for a, b in zip(answer.data[0].embedding, answer.data[i].embedding)) for i in (1, 2))
        self.assertEqual(len(answer.data[0].embedding), 64)
        self.assertGreater(near, far)
        plain = self.client.embeddings.create(model="example/tiny-embeddings", input="a function", encoding_format="float")
        for have, want in zip(plain.data[0].embedding, answer.data[0].embedding):
            self.assertAlmostEqual(have, want, 6)

    def test_several_clients_are_served_at_once(self):
        async def ask():
            async with openai.AsyncOpenAI(base_url=self.worker.endpoint + "/v1", api_key="none", max_retries=0) as client:
                return await asyncio.gather(*(client.chat.completions.create(model="tiny", messages=HELLO) for _ in range(16)))
        self.assertEqual(len({answer.choices[0].message.content for answer in asyncio.run(ask())}), 1)

    def test_errors_are_those_that_the_client_knows(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="gpt", messages=HELLO)
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaisesRegex(openai.BadRequestError, "max_tokens is a number") as caught:
            self.client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=5000)
        with self.assertRaisesRegex(openai.BadRequestError, "names no model"):
            self.client.post("/chat/completions", cast_to=object, body={"messages": []})
        with self.assertRaises(openai.APIStatusError) as caught:
            self.client.get("/chat/completions", cast_to=object)
        self.assertEqual(caught.exception.status_code, 405)


# Says what it got: of a form its fields and the digests of its files, of JSON the digest of the whole.
WHAT_CAME = """
import base64, email, email.policy, hashlib, http.server, json, os

def digest(data):
    return [len(data), hashlib.sha256(data).hexdigest()]

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def do_POST(self):
        body, kind = self.body(), self.headers["Content-Type"]
        said = {"path": self.path}
        if kind.startswith("multipart/"):
            form = email.message_from_bytes(b"Content-Type: " + kind.encode() + b"\\r\\n\\r\\n" + body, policy=email.policy.HTTP)
            for part in form.iter_parts():
                data = part.get_payload(decode=True)
                name = part.get_param("name", header="Content-Disposition")
                said[name] = digest(data) if part.get_filename() else data.decode()
        else:
            said["body"] = digest(body)
            said["model"] = json.loads(body)["model"]
        if self.path == "/v1/audio/speech":
            return self.answer("audio/mpeg", body[:3] * 1000)
        text = json.dumps(said)
        self.answer("application/json", json.dumps({"text": text, "data": [{"b64_json": base64.b64encode(text.encode()).decode()}],
                                                    "created": 1, "id": "m", "model": "m", "results": []}).encode())

    def do_GET(self):
        if self.headers.get("Upgrade", "").lower() != "websocket":
            return self.answer("text/plain", b"ready")
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        event = json.dumps({"type": "session.created", "event_id": "e", "session": {"type": "realtime", "model": self.path}}).encode()
        self.wfile.write(bytes([0x81, len(event)]) + event)
        self.close_connection = True

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


class BodiesTest(unittest.TestCase):
    """Of requests that are more than an event: forms, files, pictures and WebSockets."""
    @classmethod
    def setUpClass(cls):
        cls.worker = Worker(gpu="none")
        cls.addClassCleanup(cls.worker.close)
        cls.worker.create("ears", make_zip({"server.py": WHAT_CAME.replace("\\\\", "\\")}), handler="python3 server.py", memory=1024, timeout=60,
                          tags={"lambent:kind": "http", "lambent:openai-models": "whisper", "lambent:http-readiness": "/"})
        cls.client = client_of(cls.worker)
        cls.addClassCleanup(cls.client.close)
        cls.sound = os.urandom(9 << 20)

    def digest(self, data):
        return [len(data), hashlib.sha256(data).hexdigest()]

    def test_speech_is_transcribed_by_the_function_of_its_model(self):
        for make, path in ((self.client.audio.transcriptions.create, "/v1/audio/transcriptions"),
                           (self.client.audio.translations.create, "/v1/audio/translations")):
            said = json.loads(make(model="whisper", file=("a.wav", self.sound)).text)
            self.assertEqual((said["path"], said["model"], said["file"]), (path, "whisper", self.digest(self.sound)))
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.audio.transcriptions.create(model="gpt", file=("a.wav", self.sound))
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_a_file_may_come_before_the_name_of_the_model(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.sound)
            file.flush()
            done = subprocess.run(["curl", "-sS", self.worker.endpoint + "/v1/audio/transcriptions", "-F", f"file=@{file.name}",
                                   "-F", "model=whisper"], capture_output=True, timeout=60)
            said = json.loads(json.loads(done.stdout)["text"])
            self.assertEqual(said["file"], self.digest(self.sound))
            file.write(self.sound * 4)
            file.flush()
            done = subprocess.run(["curl", "-sS", self.worker.endpoint + "/v1/audio/transcriptions", "-F", f"file=@{file.name}",
                                   "-F", "model=whisper", "-w", "%{http_code}"], capture_output=True, timeout=60)
            self.assertTrue(done.stdout.endswith(b"413"), done.stdout)
            self.assertIn(b"first 32 MiB", done.stdout)

    def test_what_comes_behind_the_name_has_no_limit(self):
        whole = self.sound * 5
        said = json.loads(self.client.audio.transcriptions.create(model="whisper", file=("a.wav", whole)).text)
        self.assertEqual(said["file"], self.digest(whole))

    def test_pictures_and_speech(self):
        answer = self.client.images.edit(model="whisper", image=[("a.png", self.sound), ("b.png", b"two")], prompt="more")
        said = json.loads(base64.b64decode(answer.data[0].b64_json))
        self.assertEqual((said["path"], said["prompt"], said["image[]"]), ("/v1/images/edits", "more", self.digest(b"two")))
        self.assertEqual(json.loads(base64.b64decode(self.client.images.generate(model="whisper", prompt="x").data[0].b64_json))["path"],
                         "/v1/images/generations")
        self.assertEqual(len(self.client.audio.speech.create(model="whisper", voice="alloy", input="hello").read()), 3000)
        self.assertEqual(self.client.moderations.create(model="whisper", input="x").results, [])

    def test_a_chat_with_a_large_picture(self):
        body = json.dumps({"messages": [{"role": "user", "content": "x" * (20 << 20)}], "model": "whisper"}).encode()
        request = urllib.request.Request(self.worker.endpoint + "/v1/chat/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.assertEqual(json.loads(json.loads(answer.read())["text"])["body"], self.digest(body))

    def test_the_query_names_the_model_of_a_websocket(self):
        with self.client.realtime.connect(model="whisper") as connection:
            event = connection.recv()
        self.assertEqual((event.type, event.session.model), ("session.created", "/v1/realtime?model=whisper"))


class TokensTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = TokenWorker(gpu="none")
        cls.addClassCleanup(cls.held.close)
        cls.worker, operator = cls.held.worker, cls.held.operator
        for tenant in ("red", "azure"):
            operator.create_tenant(tenant)
        cls.keys = {tenant: operator.create_token(tenant)["secret"] for tenant in ("red", "azure")}
        cls.reader = operator.create_token("red", scopes=["read"])["secret"]
        deploy(cls.worker, EXAMPLE, cls.keys["red"])

    def test_the_api_key_is_the_tenants_token(self):
        with client_of(self.worker, self.keys["red"]) as client:
            self.assertTrue(client.chat.completions.create(model="tiny", messages=HELLO).choices[0].message.content)
            self.assertEqual({each.owned_by for each in client.models.list()}, {"red"})

    def test_another_tenants_models_are_not_there(self):
        with client_of(self.worker, self.keys["azure"]) as client:
            self.assertEqual(list(client.models.list()), [])
            with self.assertRaises(openai.NotFoundError):
                client.chat.completions.create(model="tiny", messages=HELLO)

    def test_who_has_no_token_or_the_wrong_scope_is_refused(self):
        with client_of(self.worker, "sk-wrong") as client, self.assertRaises(openai.AuthenticationError) as caught:
            client.chat.completions.create(model="tiny", messages=HELLO)
        self.assertEqual(caught.exception.code, "invalid_api_key")
        with client_of(self.worker, self.reader) as client:
            self.assertEqual(len(list(client.models.list())), 2)
            with self.assertRaisesRegex(openai.PermissionDeniedError, "scopes read"):
                client.embeddings.create(model="tiny", input="a")


if __name__ == "__main__":
    unittest.main()
