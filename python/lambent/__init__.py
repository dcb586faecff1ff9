"""Lambent from Python: `lambent.kernels` builds kernel functions. Standard library only."""
