"""OpenAI's own client, unmodified, against functions that speak its API: the example's server in a sandbox, behind a worker."""
import asyncio
import json
import os
import pathlib
import subprocess
import unittest
import urllib.request

import openai

from harness import PREFIX, Worker
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
            self.client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x" * (7 << 20)}])
        self.assertEqual(caught.exception.status_code, 413)
        with self.assertRaises(openai.APIStatusError) as caught:
            self.client.get("/chat/completions", cast_to=object)
        self.assertEqual(caught.exception.status_code, 405)


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
