"""ONNX files that were changed at random, for tests of what reads them."""


def changed(whole, chance):
    """A file with one to three changes: another byte, some bytes less, some more."""
    content = bytearray(whole)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(content))
        how = chance.randrange(3)
        if how == 0:
            content[at] = chance.randrange(256)
        elif how == 1:
            del content[at:at + chance.randrange(1, 40)]
        else:
            content[at:at] = chance.randbytes(chance.randrange(1, 20))
    return bytes(content)


def cut(whole, chance):
    """A file that ends too early."""
    return whole[:chance.randrange(len(whole))]
