"""The same on the CPU, and images to try it on."""


def noisy_disk(size, noise):
    """A bright disk on a dark ground; the same for the same numbers."""
    if not 1 <= size <= 2048:
        raise ValueError("size is 1 to 2048")
    state, rows = 1, []
    for y in range(size):
        row = []
        for x in range(size):
            state = (state * 1103515245 + 12345) % (1 << 31)
            is_inside = (2 * x + 1 - size) ** 2 + (2 * y + 1 - size) ** 2 < (size / 2) ** 2 * 2
            row.append((0.8 if is_inside else 0.2) * (1 - noise) + noise * state / (1 << 31))
        rows.append(row)
    return rows


def threshold_on_cpu(image):
    """1 and 0 as the pipeline answers, None where rounding decides."""
    if _is_noisy(image):
        image = _blur(image)
    level = sum(map(sum, image)) / (len(image) * len(image[0]))
    return [[None if abs(pixel - level) < 1e-5 else int(pixel >= level) for pixel in row] for row in _enlarge(image)]


def _is_noisy(image):
    differences = [abs(row[x] - row[x - 1]) for row in image for x in range(1, len(row))]
    return bool(differences) and sum(differences) / len(differences) >= 0.05


def _blur(image):
    def around(y, x):
        near = [pixel for row in image[max(0, y - 1):y + 2] for pixel in row[max(0, x - 1):x + 2]]
        return sum(near) / len(near)

    return [[around(y, x) for x in range(len(image[0]))] for y in range(len(image))]


def _enlarge(image):
    height, width = len(image), len(image[0])

    def between(y, x):
        below, right = min((y + 1) // 2, height - 1), min((x + 1) // 2, width - 1)
        return (image[y // 2][x // 2] + image[y // 2][right] + image[below][x // 2] + image[below][right]) / 4

    return [[between(y, x) for x in range(2 * width)] for y in range(2 * height)]
