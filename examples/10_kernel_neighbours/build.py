"""build.py FOLDER: a kernel function that finds the neighbours of vertices in a graph.

Algorithm 1 of the paper on kernels as a service: N times x = A (x - v), v = v + x. The adjacency
matrix comes as an input, best as an object: then it stays on the device from one request to the next.
It joins the built-in linear algebra with kernels of its own.
"""
import argparse
import os

from lambent import kernels
from lambent.kernels import blas, int32, read, read_write, write


def build(vertices: int, steps: int) -> kernels.Graph:
    graph = kernels.Graph("neighbours")
    adjacency = graph.input("adjacency", "FP32", (vertices, vertices))
    start = graph.input("start", "FP32", (vertices,))
    visited = graph.output("visited", "FP32", (vertices,))
    x = graph.temporary("x", "FP32", (vertices,))
    fresh = graph.temporary("fresh", "FP32", (vertices,))
    here = os.path.dirname(os.path.abspath(__file__))
    source = graph.source(os.path.join(here, "neighbours.cu"))
    blocks, count = (vertices + 255) // 256, int32(vertices)
    source.kernel("neighbours_begin")(blocks, 256, [start, write(x), visited, count])
    with graph.repeat(steps):
        source.kernel("vsub")(blocks, 256, [read(x), read(visited), write(fresh), count])
        source.kernel("vadd")(blocks, 256, [read_write(visited), read(x), count])
        blas.gemv(graph, adjacency, fresh, x)
    return graph


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--vertices", type=int, default=256)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--launch-mode", choices=("compute", "model"), default="compute")
    options = parser.parse_args()
    build(options.vertices, options.steps).save(
        options.folder, timeout_s=60, launch_mode=options.launch_mode,
        description="%d steps among %d vertices" % (options.steps, options.vertices))
