"""What the children of a Python program do: started again, forked, and from a library that looks at its own names first.
usage: children.py DEEPBOUND_LIBRARY"""
import ctypes
import multiprocessing
import os
import subprocess
import sys

MIB = 1 << 20


def allocate(mebibytes):
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuInit(0)
    return driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(mebibytes * MIB))


def two(queue=None):
    """30 MiB fit beside the parent's 30, 30 more do not."""
    answers = f"{allocate(30)},{allocate(30)}"
    if queue is not None:
        queue.put(answers)
    return answers


def main():
    if sys.argv[1] == "child":
        print(two())
        return
    print("parent", allocate(30))
    child = subprocess.run([sys.executable, "-B", __file__, "child"], capture_output=True, text=True, check=True)
    print("started", child.stdout.strip())
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    forked = context.Process(target=two, args=(queue,))
    forked.start()
    print("forked", queue.get())
    forked.join()
    print("forked_ended", forked.exitcode)
    deepbound = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_DEEPBIND)
    deepbound.deepbound_allocate.argtypes = [ctypes.c_size_t]
    print("deepbound", f"{deepbound.deepbound_allocate(30 * MIB)},{deepbound.deepbound_allocate(30 * MIB)}")
    print("deepbound_by_name", deepbound.deepbound_allocate_by_name(ctypes.c_size_t(30 * MIB)))


if __name__ == "__main__":
    main()
