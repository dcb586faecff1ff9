"""Runs a kernel function's graph step by step through the driver: what its results must be.

A reference for tests: no cache, no concurrency, no sharing of memory. Usable as a program, which
reads {"package", "bundles", "inputs"} from its input and answers the outputs, all in base64.
"""
import base64
import ctypes
import json
import os
import sys

import lambent_cuda as cuda
from lambent.kernels.literals import pack, size_of


def run(package, bundles, inputs):
    """The outputs by name, as bytes. `bundles` has the folder of each bundle, `inputs` bytes."""
    device = cuda.Device()
    with open(os.path.join(package, "graph.json"), encoding="utf-8") as file:
        graph = json.load(file)
    buffers = {}
    for entry in graph["buffers"]:
        count = 1
        for extent in entry["shape"]:
            count *= extent
        if entry["role"] in ("input", "in_out"):
            content = inputs[entry["name"]]
        elif "file" in entry:
            with open(os.path.join(package, entry["file"]), "rb") as file:
                content = file.read()
        elif "fill" in entry:
            content = pack(entry["datatype"], [entry["fill"]]) * count
        else:
            content = b"\xff" * (count * size_of(entry["datatype"]))  # undefined
        assert len(content) == count * size_of(entry["datatype"]), entry["name"]
        buffers[entry["name"]] = device.buffer(content)
    modules = {name: device.load(folder) for name, folder in bundles.items()}
    _run_steps(graph["steps"], buffers, modules)
    return {entry["name"]: buffers[entry["name"]].bytes() for entry in graph["buffers"]
            if entry["role"] in ("output", "in_out")}


def _run_steps(steps, buffers, modules):
    for step in steps:
        if "repeat" not in step:
            modules[step["bundle"]].kernel(step["kernel"])(
                step["grid"], step["block"],
                [_argument(argument, buffers) for argument in step["arguments"]],
                step.get("shared_bytes", 0))
            continue
        flag = buffers.get(step.get("until"))
        if flag:
            flag.write(bytes(4))
        for _ in range(step["repeat"]):
            _run_steps(step["steps"], buffers, modules)
            if flag and flag.bytes()[:4] != bytes(4):
                break


def _argument(argument, buffers):
    if "buffer" in argument:
        return ctypes.c_uint64(buffers[argument["buffer"]].pointer.value +
                               argument.get("offset_bytes", 0))
    literal = argument["literal"]
    data = pack(argument["datatype"], literal if isinstance(literal, list) else [literal])
    return (ctypes.c_ubyte * len(data)).from_buffer_copy(data)


if __name__ == "__main__":
    request = json.load(sys.stdin)
    result = run(request["package"], request["bundles"],
                 {name: base64.b64decode(text) for name, text in request["inputs"].items()})
    print(json.dumps({name: base64.b64encode(data).decode() for name, data in result.items()}))
