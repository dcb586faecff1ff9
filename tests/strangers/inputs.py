"""Inputs that Rodinia's programs read: drawn from a seed, of the shape of the files that are published apart from its sources."""
import math
import random


def graph(path, nodes):
    """A directed graph: its nodes, the source, its edges with costs."""
    chance = random.Random(1)
    edges = [[chance.randrange(nodes) for _ in range(chance.randrange(2, 9))] for _ in range(nodes)]
    with open(path, "w") as file:
        file.write(f"{nodes}\n")
        begin = 0
        for row in edges:
            file.write(f"{begin} {len(row)}\n")
            begin += len(row)
        file.write(f"\n0\n\n{begin}\n")
        for row in edges:
            file.writelines(f"{to} {chance.randrange(1, 10)}\n" for to in row)


def numbers(path, count, low, high):
    chance = random.Random(path.name)
    path.write_text("".join(f"{chance.uniform(low, high):.6f}\n" for _ in range(count)))


def storms(path, count):
    """Records of 49 bytes with a place in columns 28 to 38, and the list that names their file."""
    chance = random.Random(2)
    with open(path, "w") as file:
        for i in range(count):
            place = f"{chance.uniform(7, 63):5.1f} {chance.uniform(10, 358):5.1f}"
            file.write(f"{1950 + i % 50:4d} {1 + i % 12:2d} {1 + i % 28:2d} {i % 24:2d} {i % 99:2d} {'STORM':<9} {place} {i % 160:4d} {i % 1000:4d}\n")
    path.with_name("filelist").write_text(f"{path.name}\n")


def mesh(path, elements):
    """Cells of a ring of triangular prisms: for each its area, and four neighbours with their normals."""
    chance = random.Random(3)
    with open(path, "w") as file:
        file.write(f"{elements}\n")
        for i in range(elements):
            file.write(f"{chance.uniform(0.5, 1.5):.6f}")
            for k, step in enumerate((-1, 1, -2, 2)):
                angle = 2 * math.pi * k / 4
                to = i + step + 1
                # Beyond the ends: far field (-2) on one side, a wing (-1) on the other.
                to = -2 if to < 1 else -1 if to > elements else to
                file.write(f" {to} {0.01 * math.cos(angle):.6f} {0.01 * math.sin(angle):.6f} 0.0")
            file.write("\n")


def picture(path, rows, columns):
    """A grey picture as text (PGM)."""
    chance = random.Random(4)
    lines = [" ".join(str(min(255, max(0, int(100 + 60 * math.sin(r / 9) * math.cos(c / 7) + chance.gauss(0, 15))))) for c in range(columns))
             for r in range(rows)]
    path.write_text(f"P2\n{columns} {rows}\n255\n" + "\n".join(lines) + "\n")


def text(path, count):
    """Words as frequent as words are, for what compresses them."""
    chance = random.Random(5)
    words = ["".join(chance.choice("etaoinshrdlu") for _ in range(1 + min(9, int(chance.expovariate(0.3))))) for _ in range(300)]
    out = " ".join(words[min(299, int(chance.expovariate(0.03)))] for _ in range(count))[:count]
    path.write_bytes(out.encode())


def keys(path, count):
    """How many, and so many different keys."""
    chance = random.Random(6)
    drawn = list(range(1, count + 1))
    chance.shuffle(drawn)
    path.write_text(f"{count}\n" + "".join(f"{key}\n" for key in drawn))


def lines(path, text_of_file):
    path.write_text(text_of_file)


DRAW = {"graph": graph, "numbers": numbers, "storms": storms, "mesh": mesh, "picture": picture, "text": text, "keys": keys, "lines": lines}


def draw(folder, rows):
    for row in rows:
        kind, name, *values = row
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        DRAW[kind](path, *values)
