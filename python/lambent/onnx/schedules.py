"""How functions of TVM become kernels: which part of the work a block and a thread have. Rules for dlight, tried one after another."""
import contextlib
import math
from dataclasses import replace
from typing import Any, List, Sequence, Tuple

import tvm
import tvm.s_tir
from tvm import tirx
from tvm.s_tir import dlight
from tvm.s_tir.dlight.analysis import normalize_prim_func
from tvm.s_tir.dlight.base import try_inline, try_inline_contiguous_spatial

# Sums of so few numbers are computed by a thread each.
FEW = 128
_THREADS = 256  # of a block


def rules() -> List[Any]:
    """The first that fits a function and leads to a kernel is taken."""
    return [Careful(each) for each in (_Products(), _ByThemselves(), _ByThemselves(in_one=False), dlight.gpu.GEMV(),
                                       dlight.gpu.Reduction(), _Rows(), dlight.gpu.GeneralReduction())]


class Careful(dlight.base.ScheduleRule):
    """A rule for kernels of some form; what it breaks down over it leaves to the next rule."""

    def __init__(self, rule: Any) -> None:
        super().__init__()
        self._rule = rule

    def apply(self, func: tirx.PrimFunc, target: tvm.target.Target, tunable: bool) -> Any:
        try:
            return self._rule.apply(func, target, tunable)
        except Exception:
            return None


class _Products(dlight.gpu.Matmul):
    """Convolutions and products of matrices by tiles. What is unrolled further costs a compiler
    seconds for each kernel and gains little."""

    def get_configs(self, target: tvm.target.Target) -> Any:
        return replace(super().get_configs(target), unroll=16)


class _ByThemselves(dlight.gpu.Fallback):
    """Short sums, maxima of windows, and convolutions of each channel by itself: the threads of a block would have little to sum
    up together, and most of them nothing. Each thread has a sum of its own, and what follows from it."""

    def __init__(self, in_one: bool = True) -> None:
        super().__init__()
        self._in_one = in_one  # one kernel, or what follows in another

    def apply(self, func: tirx.PrimFunc, target: tvm.target.Target, tunable: bool) -> Any:
        sch = tvm.s_tir.Schedule(func)
        sums = [each for each in normalize_prim_func(sch) or [] if each.is_reduction()]
        if len(sums) != 1 or len(sch.get(sums[0].block_rv).writes) != 1:  # the place of a maximum comes with the maximum
            return None
        lengths = [each.dom for each in sums[0].iters if each.kind == "R"]
        if not all(isinstance(each, int) for each in lengths) or math.prod(lengths) > FEW:
            return None
        return self._in_one_kernel(func) if self._in_one else super().apply(func, target, tunable)

    @staticmethod
    def _in_one_kernel(func: tirx.PrimFunc) -> Any:
        sch = tvm.s_tir.Schedule(func)
        infos = try_inline(sch, normalize_prim_func(sch))
        main = infos[0].block_rv
        if not infos[0].is_reduction() or len(infos) > 2:
            return None
        results = math.prod(each.dom for each in infos[0].iters if each.kind == "S")
        if len(infos) == 1:
            last = sch.cache_write(main, 0, "local")
        elif infos[1].is_injective() and math.prod(infos[1].dom()) == results:
            last = infos[1].block_rv
            sch.set_scope(main, 0, "local")
        else:
            return None
        block, thread = sch.split(sch.fuse(*sch.get_loops(last)), [None, _THREADS])
        sch.bind(block, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
        sch.compute_at(main, thread, preserve_unit_loops=True)
        with contextlib.suppress(tvm.s_tir.ScheduleError):  # then the first step of the sum is a condition in its loop
            sch.decompose_reduction(main, sch.get_loops(main)[2])
        return sch


class _Rows(dlight.gpu.GeneralReduction):
    """Softmax, normalisations and the like, which sum rows up more than once, of rows that are shorter than a block: a row has about as
    many threads as elements, and a block several rows. Sums are those of a row with a block of its own, whose other threads add nothing."""

    def apply(self, func: tirx.PrimFunc, target: tvm.target.Target, tunable: bool) -> Any:
        sch = tvm.s_tir.Schedule(func)
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if not infos or len(infos) < 2:
            return None
        *sums, last = infos
        kind, extents = sums[0].dom_kind(), sums[0].dom()
        dimensions = kind.count("S")  # before those of a row
        if kind != "S" * dimensions + "R" * (len(kind) - dimensions) or dimensions in (0, len(kind)) or not last.is_injective():
            return None
        if any(each.dom_kind() != kind for each in sums) or any(each.dom() != extents for each in infos):
            return None
        if not all(isinstance(each, int) for each in extents):
            return None
        length = math.prod(extents[dimensions:])
        if length > _THREADS // 2:
            return None
        lanes = 1 << (length - 1).bit_length()
        loops = sch.get_loops(last.block_rv)
        place, part = _rows_together(extents[:dimensions], _THREADS // lanes)
        before, row = sch.split(loops[place], [None, part])
        row = sch.fuse(row, *loops[place + 1:dimensions])
        sch.bind(sch.fuse(*loops[:place], before), "blockIdx.x")
        sch.bind(row, "threadIdx.y")
        self._bind(sch, loops[dimensions:], lanes)
        for each in reversed(sums):
            for index, _ in enumerate(sch.get(each.block_rv).writes):
                sch.set_scope(each.block_rv, index, "shared")
            sch.compute_at(each.block_rv, row, preserve_unit_loops=True)
            self._bind(sch, sch.get_loops(each.block_rv)[dimensions - len(kind):], lanes)
        return sch

    @staticmethod
    def _bind(sch: Any, loops: Sequence[Any], lanes: int) -> None:
        rest, lane = sch.split(sch.fuse(*loops), [None, lanes])
        sch.reorder(lane, rest)
        sch.bind(lane, "threadIdx.x")


def _rows_together(extents: Sequence[int], most: int) -> Tuple[int, int]:
    """A block has so much of this dimension, and all of those behind it: at most so many rows, and no block is partly empty."""
    rows = 1
    for place in reversed(range(len(extents))):
        part = max(each for each in range(1, min(extents[place], most // rows) + 1) if extents[place] % each == 0)
        rows *= part
        if part < extents[place]:
            return place, part
    return 0, extents[0]
