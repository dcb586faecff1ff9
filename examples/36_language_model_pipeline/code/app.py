"""A decoder in two stages: prefill reads the whole prompt, decode writes the answer, a token at a time.

Prefill computes the keys and values of the prompt once and hands them on, as tensors; decode goes on from them. On two slices one request
is read while another is written, as where prefill and decode have GPUs of their own. Event: {"prompt": text, "count": 1 to 64 tokens}.
The weights come from a seed, so what it writes means nothing; a real model loads them in setup, from a volume. A token is a byte.
"""
import torch
from lambent.pipeline import Module, Pipeline
from torch import nn
from torch.nn import functional

LAYERS, HEADS, WIDTH, TOKENS = 4, 4, 64, 256
MOST_PROMPT, MOST_COUNT = 512, 64


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.look, self.gather = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, hidden, past):
        """(hidden, (keys, values) of all tokens so far); `past` is that of the tokens before, or None."""
        rows = hidden.shape[1]
        query, key, value = (part.view(1, rows, HEADS, -1).transpose(1, 2) for part in self.look(self.before(hidden)).split(WIDTH, 2))
        if past is not None:
            key, value = torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)
        seen = torch.ones(rows, key.shape[2], dtype=torch.bool, device=hidden.device).tril(key.shape[2] - rows)
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen).transpose(1, 2).reshape(1, rows, WIDTH)
        hidden = hidden + self.gather(found)
        return hidden + self.think(self.between(hidden)), (key, value)


class Decoder(Module):
    """The network, which both stages have."""

    def setup(self):
        torch.manual_seed(34)
        self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(MOST_PROMPT + MOST_COUNT, WIDTH)
        self.layers, self.last = nn.ModuleList(Layer() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)

    def run(self, tokens, past):
        """(the next token, keys and values of each layer) after these tokens, which follow those of `past`."""
        first = 0 if past is None else past[0][0].shape[2]
        places = torch.arange(first, first + tokens.shape[1], device=tokens.device)
        hidden, kept = self.tokens(tokens) + self.places(places), []
        for number, layer in enumerate(self.layers):
            hidden, pair = layer(hidden, None if past is None else past[number])
            kept.append(pair)
        return self.head(self.last(hidden[:, -1])).argmax(1, keepdim=True), kept


class Prefill(Decoder):
    def forward(self, prompt):
        token, kept = self.run(prompt, None)
        # Keys and values of all layers as one tensor: one copy from stage to stage.
        return {"token": token, "past": torch.stack([torch.stack(pair) for pair in kept])}


class Decode(Decoder):
    def forward(self, state, count):
        token, past = state["token"], [(layer[0], layer[1]) for layer in state["past"]]
        written = [token]
        while len(written) < count:
            token, past = self.run(token, past)
            written.append(token)
        return torch.cat(written, 1)


class App(Pipeline):
    slo_scale = 3

    def define_dag(self, prompt, count):
        return self.register("decode", Decode, self.register("prefill", Prefill, prompt), count)

    def decode(self, event):
        text, count = event["prompt"].encode(), int(event.get("count", 16))
        if not 1 <= len(text) <= MOST_PROMPT:
            raise ValueError("'prompt' has 1 to %d bytes" % MOST_PROMPT)
        if not 1 <= count <= MOST_COUNT:
            raise ValueError("'count' is 1 to %d" % MOST_COUNT)
        return {"prompt": torch.tensor([list(text)]), "count": count}

    def encode(self, outputs):
        return {"tokens": outputs["decode"][0].tolist()}
