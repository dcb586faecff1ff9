"""Answers on the CPU for programs of Rodinia that have no version for it: by the same formulas, in double precision."""


def hotspot(folder, program):
    """Heat in a plate, step by step: each cell from its power, its neighbours and the air; at the edges a cell is its own neighbour."""
    size, steps = int(program.arguments[0]), int(program.arguments[2])
    temperature, power = ([float(word) for word in (folder / name).read_text().split()] for name in program.arguments[3:5])
    edge = 0.016 / size
    capacity = 0.5 * 1.75e6 * 0.0005 * edge * edge
    sideways = 1 / (edge / (2 * 100 * 0.0005 * edge))
    upwards = 1 / (0.0005 / (100 * edge * edge))
    step = 0.001 / (3.0e6 / (0.5 * 0.0005 * 1.75e6)) / capacity
    rows = range(size)
    for _ in range(steps):
        old = temperature
        temperature = [0.0] * (size * size)
        for r in rows:
            above, here, below = max(r - 1, 0) * size, r * size, min(r + 1, size - 1) * size
            for c in rows:
                t = old[here + c]
                vertical = old[below + c] + old[above + c] - 2 * t
                horizontal = old[here + min(c + 1, size - 1)] + old[here + max(c - 1, 0)] - 2 * t
                temperature[here + c] = t + step * (power[here + c] + (vertical + horizontal) * sideways + (80.0 - t) * upwards)
    return [f"{i} {t:.6g}" for i, t in enumerate(temperature)]


CALCULATED = {"hotspot": hotspot}
