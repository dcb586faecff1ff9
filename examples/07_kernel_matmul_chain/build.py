"""build.py FOLDER: a kernel function that multiplies a matrix by a few constant ones, layer by layer.

With three layers of 1024 x 1024 it is the micro-benchmark of the paper on kernels as a service.
"""
import argparse
import array

from lambent import kernels
from lambent.kernels import blas


def weights(layer: int, size: int) -> array.array:
    """A constant matrix: small numbers that repeat, different for each layer."""
    period = [((i * (layer + 3)) % 13 - 6) / (4 * size) for i in range(13 * 64)]
    repeated = array.array("f", period) * (size * size // len(period) + 1)
    return repeated[:size * size]


def build(size: int, layers: int) -> kernels.Graph:
    graph = kernels.Graph("matmul_chain")
    value = graph.input("x", "FP32", (size, size))
    for layer in range(layers):
        matrix = graph.constant("w%d" % layer, "FP32", (size, size), data=weights(layer, size))
        make = graph.output if layer == layers - 1 else graph.temporary
        result = make("y" if layer == layers - 1 else "h%d" % layer, "FP32", (size, size))
        blas.gemm(graph, value, matrix, result)
        value = result
    return graph


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--launch-mode", choices=("compute", "model"), default="compute")
    options = parser.parse_args()
    build(options.size, options.layers).save(
        options.folder, timeout_s=60, launch_mode=options.launch_mode,
        description="%d layers of %d x %d" % (options.layers, options.size, options.size))
