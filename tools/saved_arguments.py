"""The instructions that put the arguments of a call aside on x86-64 and bring them back, for the generators of stubs that call
something else before the function that they stand for. What they use lies in the 192 bytes at the stack pointer."""

# What may hold arguments, with the count of vector registers in rax; 56 is left for the caller of this file.
_WHOLE = [("rdi", 0), ("rsi", 8), ("rdx", 16), ("rcx", 24), ("r8", 32), ("r9", 40), ("rax", 48)]
_VECTOR = [(f"xmm{index}", 64 + 16 * index) for index in range(8)]


def save():
    return "\n".join([f"  movq %{name}, {at}(%rsp)" for name, at in _WHOLE] +
                     [f"  movups %{name}, {at}(%rsp)" for name, at in _VECTOR])


def restore():
    return "\n".join([f"  movups {at}(%rsp), %{name}" for name, at in reversed(_VECTOR)] +
                     [f"  movq {at}(%rsp), %{name}" for name, at in reversed(_WHOLE)])
