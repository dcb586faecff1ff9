#!/usr/bin/env python3
"""Writes a language model that is real and knows nothing: Llama's architecture, one layer of 32 numbers, seeded random weights, a vocabulary of
the 256 bytes. As a GGUF file of 112 KiB, by the standard library.

usage: tiny_gguf.py FILE
"""
import random
import struct
import sys

WIDTH, HEADS, INNER, CONTEXT, SEED = 32, 2, 64, 256, 20261130
ALIGNMENT = 32
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9  # GGUF's types of values
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # and of tokens
TOKENS = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL), *((f"<0x{value:02X}>", BYTE) for value in range(256)), ("\u2581", NORMAL)]


def text(value):
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def scalar(kind, value):
    return text(value) if kind == STRING else struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f"}[kind], value)


def entry(name, kind, value):
    return text(name) + struct.pack("<I", kind) + scalar(kind, value)


def entries(name, kind, values):
    return text(name) + struct.pack("<IIQ", ARRAY, kind, len(values)) + b"".join(scalar(kind, value) for value in values)


def metadata():
    tokens = [token for token, _ in TOKENS]
    return [entry("general.architecture", STRING, "llama"), entry("general.name", STRING, "tiny"),
            entry("llama.context_length", UINT32, CONTEXT), entry("llama.embedding_length", UINT32, WIDTH),
            entry("llama.block_count", UINT32, 1), entry("llama.feed_forward_length", UINT32, INNER),
            entry("llama.attention.head_count", UINT32, HEADS), entry("llama.attention.head_count_kv", UINT32, HEADS),
            entry("llama.rope.dimension_count", UINT32, WIDTH // HEADS), entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
            entry("tokenizer.ggml.model", STRING, "llama"), entries("tokenizer.ggml.tokens", STRING, tokens),
            entries("tokenizer.ggml.scores", FLOAT32, [0.0] * len(tokens)),
            entries("tokenizer.ggml.token_type", INT32, [kind for _, kind in TOKENS]),
            entry("tokenizer.ggml.unknown_token_id", UINT32, 0), entry("tokenizer.ggml.bos_token_id", UINT32, 1),
            entry("tokenizer.ggml.eos_token_id", UINT32, 2)]


def shapes():
    """[(name, dimensions)], the innermost first."""
    square, words = (WIDTH, WIDTH), (WIDTH, len(TOKENS))
    return [("token_embd.weight", words), ("output_norm.weight", (WIDTH,)), ("output.weight", words), ("blk.0.attn_norm.weight", (WIDTH,)),
            ("blk.0.attn_q.weight", square), ("blk.0.attn_k.weight", square), ("blk.0.attn_v.weight", square),
            ("blk.0.attn_output.weight", square), ("blk.0.ffn_norm.weight", (WIDTH,)), ("blk.0.ffn_gate.weight", (WIDTH, INNER)),
            ("blk.0.ffn_up.weight", (WIDTH, INNER)), ("blk.0.ffn_down.weight", (INNER, WIDTH))]


def tiny_gguf():
    """The bytes of the file: the same each time."""
    drawn = random.Random(SEED)
    headers, data = [], b""
    for name, dimensions in shapes():
        headers.append(text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, 0, len(data)))  # 0: float32
        count = dimensions[0] * (dimensions[1] if len(dimensions) > 1 else 1)
        values = [1.0] * count if "norm" in name else [drawn.gauss(0, 0.3) for _ in range(count)]
        data += struct.pack(f"<{count}f", *values)
        data += bytes(-len(data) % ALIGNMENT)
    told = metadata()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(headers), len(told)) + b"".join(told) + b"".join(headers)
    return head + bytes(-len(head) % ALIGNMENT) + data


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "wb") as file:
        file.write(tiny_gguf())
