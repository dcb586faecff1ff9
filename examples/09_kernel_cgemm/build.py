"""build.py FOLDER: a kernel function that multiplies a narrow complex matrix by a large constant one.

As in the paper on kernels as a service: 100 x 10000 by 10000 x 25000, of which the constant has 2 GB.
It is a number that fills it, so that the package stays small; input and output are objects, since
they are larger than a request may be.
"""
import argparse

from lambent import kernels
from lambent.kernels import blas


def build(rows: int, inner: int, columns: int) -> kernels.Graph:
    graph = kernels.Graph("cgemm")
    x = graph.input("x", "FP32", (rows, inner, 2))
    w = graph.constant("w", "FP32", (inner, columns, 2), fill=0.5)
    y = graph.output("y", "FP32", (rows, columns, 2))
    blas.gemm(graph, x, w, y, complex_numbers=True)
    return graph


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--inner", type=int, default=10000)
    parser.add_argument("--columns", type=int, default=25000)
    parser.add_argument("--launch-mode", choices=("compute", "model"), default="model")
    options = parser.parse_args()
    build(options.rows, options.inner, options.columns).save(
        options.folder, timeout_s=60, launch_mode=options.launch_mode,
        description="Complex %d x %d by %d x %d" % (options.rows, options.inner, options.inner,
                                                    options.columns))
