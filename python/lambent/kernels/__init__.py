"""Builds kernel functions: graphs of CUDA kernels without host code. Standard library only.

    from lambent import kernels
    from lambent.kernels import blas, int32

    graph = kernels.Graph("steps")
    x = graph.input("x", "FP32", (512, 512))
    w = graph.constant("w", "FP32", (512, 512), fill=0.5)
    y = graph.output("y", "FP32", (512, 512))
    blas.gemm(graph, x, w, y)                                # built in
    step = graph.source("step.cu").kernel("step")            # compiled at deploy
    with graph.repeat(100):
        step(grid=1024, block=256, arguments=[kernels.read_write(y), int32(512 * 512)])
    graph.save("package")                                    # lambent deploy package

Launches stand in an order in which they could run one after the other; those that touch nothing in
common may run at the same time. A mistake raises GraphError at the line that makes it.
"""
from .errors import GraphError
from .graph import Argument, Buffer, Bundle, Graph, Kernel, read, read_write, write
from .literals import (Literal, bool8, complex64, float32, float64, int8, int16, int32, int64, raw,
                       uint8, uint16, uint32, uint64)

__all__ = ["Argument", "Buffer", "Bundle", "Graph", "GraphError", "Kernel", "Literal", "bool8",
           "complex64", "float32", "float64", "int8", "int16", "int32", "int64", "raw", "read",
           "read_write", "uint8", "uint16", "uint32", "uint64", "write"]
