"""A small language model behind OpenAI's API, as vLLM, llama.cpp's server and others have it. Standard library only.

    python3 server.py 8080             # without Lambent
    lambent deploy 30_openai_server    # with it

The model is a table of which word follows which in TEXT. It always takes the word that follows most often, so that its answers are
the same each time.
"""
import base64
import collections
import hashlib
import http.server
import itertools
import json
import math
import os
import struct
import sys
import time

TEXT = """a function waits for its turn . a function runs on a gpu . the gpu runs one function at a time . a model is a function that
answers with words . the words come one at a time . when nobody asks the model rests . a model that rests gives its gpu to another
function ."""
DIMENSIONS = 64
WORDS = TEXT.split()
FOLLOWERS = collections.defaultdict(collections.Counter)
for first, second in itertools.pairwise(WORDS):
    FOLLOWERS[first][second] += 1


def continue_text(text, most):
    """The words that follow, at most `most`, and why they end: "stop" or "length"."""
    known = [word for word in text.lower().split() if word in FOLLOWERS]
    words, used = [known[-1] if known else WORDS[0]], collections.Counter()
    while len(words) <= most:
        followers = FOLLOWERS[words[-1]] or {WORDS[0]: 1}
        # A step that was taken before makes room for others.
        words.append(max(followers, key=lambda word: followers[word] - 2 * used[words[-1], word]))
        used[words[-2], words[-1]] += 1
        if words[-1] == ".":
            return words[1:], "stop"
    return words[1:], "length"


def embedding(text):
    """A unit vector of the text's letter triples: texts that share words are near each other."""
    vector = [0.0] * DIMENSIONS
    for start in range(max(1, len(text) - 2)):
        digest = hashlib.sha256(text[start:start + 3].lower().encode()).digest()
        vector[digest[0] % DIMENSIONS] += 1 if digest[1] % 2 else -1
    length = math.sqrt(sum(value * value for value in vector)) or 1
    return [value / length for value in vector]


class BadRequest(Exception):
    pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(200 if self.path == "/health" else 404, {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        routes = {"/v1/chat/completions": self.chat, "/v1/completions": self.complete, "/v1/embeddings": self.embed}
        try:
            request = json.loads(body)
            routes[self.path](request)
        except (BadRequest, KeyError, TypeError, ValueError) as error:
            self.answer(400, {"error": {"message": f"bad request: {error}", "type": "invalid_request_error", "param": None, "code": None}})

    def chat(self, request):
        prompt = " ".join(message["content"] for message in request["messages"])
        self.generate(request, prompt, "chat.completion", "chat.completion.chunk",
                      lambda text: {"message": {"role": "assistant", "content": text}},
                      lambda text: {"delta": {"role": "assistant", "content": text}})

    def complete(self, request):
        self.generate(request, request["prompt"], "text_completion", "text_completion", lambda text: {"text": text},
                      lambda text: {"text": text})

    def generate(self, request, prompt, kind, kind_of_pieces, whole, piece):
        most = request.get("max_completion_tokens") or request.get("max_tokens") or 16
        if not isinstance(most, int) or not 0 < most <= 1000:
            raise BadRequest("max_tokens is a number from 1 to 1000")
        words, reason = continue_text(prompt, most)
        about = {"id": "gen-" + hashlib.sha256(prompt.encode()).hexdigest()[:12], "created": int(time.time()), "model": request["model"]}
        if request.get("stream"):
            texts = [words[0]] + [" " + word for word in words[1:]]
            pieces = [(text, None) for text in texts] + [("", reason)]
            return self.send_events({**about, "object": kind_of_pieces, "choices": [{"index": 0, "finish_reason": why, **piece(text)}]}
                                    for text, why in pieces)
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(words), "total_tokens": len(prompt.split()) + len(words)}
        choice = {"index": 0, "finish_reason": reason, **whole(" ".join(words))}
        return self.answer(200, {**about, "object": kind, "choices": [choice], "usage": usage})

    def embed(self, request):
        texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
        vectors = [embedding(text) for text in texts]
        if request.get("encoding_format") == "base64":  # as the openai client asks for them
            vectors = [base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *vector)).decode() for vector in vectors]
        tokens = sum(len(text.split()) for text in texts)
        self.answer(200, {"object": "list", "model": request["model"], "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                          "data": [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]})

    def send_events(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in itertools.chain(map(json.dumps, events), ["[DONE]"]):
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            time.sleep(0.02)  # as a model that thinks between two words
        self.wfile.write(b"0\r\n\r\n")

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    port = int(os.environ.get("PORT") or sys.argv[1])
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
