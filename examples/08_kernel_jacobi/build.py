"""build.py FOLDER: a kernel function that solves a * x = b by Jacobi's method.

The loop runs on the device: a fixed number of iterations, or with --tolerance until x rests.
"""
import argparse
import os

from lambent import kernels
from lambent.kernels import float64, int32, read, write


def build(size: int, iterations: int, tolerance: float = 0) -> kernels.Graph:
    """Two iterations a round: from x to `other`, and back."""
    graph = kernels.Graph("jacobi_until" if tolerance else "jacobi_solver")
    a = graph.input("a", "FP32", (size, size))
    b = graph.input("b", "FP64", (size, 1))
    x = graph.output("x", "FP64", (size, 1))
    other = graph.temporary("other", "FP64", (size, 1))
    done = graph.temporary("done", "INT32", (1,)) if tolerance else None
    here = os.path.dirname(os.path.abspath(__file__))
    source = graph.source(os.path.join(here, "jacobi_solver.cu"))
    step = source.kernel("jacobi_solver_step")
    blocks = (size + 15) // 16
    source.kernel("jacobi_solver_start")((size + 127) // 128, 128, [x, int32(size)])
    with graph.repeat((iterations + 1) // 2, until=done):
        step(blocks, 128, [a, b, read(x), write(other), int32(size)])
        step(blocks, 128, [a, b, read(other), write(x), int32(size)])
        if done is not None:
            source.kernel("jacobi_solver_done")(
                1, 512, [read(other), read(x), int32(size), float64(tolerance), write(done)])
    return graph


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--iterations", type=int, default=3000, help="rounded up to an even number")
    parser.add_argument("--tolerance", type=float, default=0, help="stop when no element changes more")
    parser.add_argument("--launch-mode", choices=("compute", "model"), default="compute")
    options = parser.parse_args()
    build(options.size, options.iterations, options.tolerance).save(
        options.folder, timeout_s=60, launch_mode=options.launch_mode,
        description="Solves %d equations in %d iterations" % (options.size, options.iterations))
