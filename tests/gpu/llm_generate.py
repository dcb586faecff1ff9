"""A language model that writes a few words, greedily, with a cache of keys and values. Prints a digest of what it wrote.

The model: the folder in LAMBENT_GPU_MODEL, by transformers; else one of GPT-2's shape with weights drawn from a seed, by transformers if that
is installed and by the few lines of PyTorch below if not: what it writes means nothing, what it does on the device is the same.
"""
import hashlib
import os
import sys
import time

try:
    import torch
except ImportError:
    print("PyTorch is not installed", file=sys.stderr)
    sys.exit(77)
try:
    import transformers
except ImportError:
    transformers = None

PROMPT, WORDS, TURNS = 32, 64, 6
VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST = 50257, 768, 12, 12, 1024


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.query_key_value, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.mix = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, cache):
        batch, length, _ = x.shape
        parts = self.query_key_value(self.before(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1], parts[2]
        if cache:
            key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        cache[:] = [key, value]
        read = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=length > 1)
        x = x + self.out(read.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mix(self.after(x))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Embedding(LONGEST, WIDTH)
        self.blocks, self.last = torch.nn.ModuleList(Block() for _ in range(LAYERS)), torch.nn.LayerNorm(WIDTH)

    def generate(self, words):
        caches = [[] for _ in self.blocks]
        written, begin = words, 0
        while written.shape[1] < PROMPT + WORDS:
            new = written[:, begin:]
            x = self.words(new) + self.places(torch.arange(begin, written.shape[1], device=new.device))
            for block, cache in zip(self.blocks, caches):
                x = block(x, cache)
            begin = written.shape[1]
            best = (self.last(x[:, -1]) @ self.words.weight.T).argmax(-1, keepdim=True)
            written = torch.cat([written, best], 1)
        return written


def model_and_prompt():
    """(what it is, a function from a prompt to what is written, the prompt)"""
    folder = os.environ.get("LAMBENT_GPU_MODEL")
    drawn = torch.randint(0, VOCABULARY, (1, PROMPT)).cuda()
    by_library = dict(max_new_tokens=WORDS, do_sample=False)
    if folder and transformers is None:
        print("LAMBENT_GPU_MODEL needs transformers, which is not installed", file=sys.stderr)
        sys.exit(77)
    if folder:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float16).cuda().eval()
        prompt = tokenizer("The scheduler of a GPU has to", return_tensors="pt").to("cuda")["input_ids"]
        return folder, lambda words: model.generate(words, **by_library), prompt
    if transformers is not None and os.environ.get("LAMBENT_GPU_PLAIN_MODEL") is None:
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).half().cuda().eval()
        return ("transformers, GPT-2's shape", lambda words: model.generate(
            words, attention_mask=torch.ones_like(words), pad_token_id=0, eos_token_id=None, **by_library), drawn)
    model = Model().half().cuda().eval()
    return "PyTorch alone, GPT-2's shape", model.generate, drawn


def main():
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    torch.manual_seed(7)
    what, generate, prompt = model_and_prompt()
    digests = set()
    with torch.no_grad():
        generate(prompt)
        start = time.monotonic()
        for _ in range(TURNS):
            written = generate(prompt).cpu()
            digests.add(hashlib.sha256(written.numpy().tobytes()).hexdigest())
        took = time.monotonic() - start
    if len(digests) != 1:
        sys.exit("the same prompt led to %d texts" % len(digests))
    print(digests.pop())
    print("model: " + what, file=sys.stderr)
    print("rate %.2f words a second" % (TURNS * (written.shape[1] - prompt.shape[1]) / took), file=sys.stderr)


main()
