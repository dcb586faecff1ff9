"""Spectra of many signals. Event: {"points": a power of two, "signals": n}, "check": true to compare."""
import array
import cmath
import math
import os

import lambent_cuda as cuda

BUNDLE = os.path.join(os.environ.get("LAMBDA_TASK_ROOT", "."), "bundles", "fft")

device = cuda.Device()
transform = device.load(BUNDLE).kernel("fft_forward")


def handler(event, context):
    points, signals = int(event.get("points", 64)), int(event.get("signals", 4))
    if points not in (2 ** k for k in range(1, 12)) or not 1 <= signals <= 1024:
        raise ValueError("points must be a power of two from 2 to 2048, signals 1 to 1024")
    # Signal s is a cosine with s + 1 periods: its spectrum peaks there. Real, imaginary, real, ...
    values = array.array("f")
    for s in range(signals):
        for n in range(points):
            values.extend((math.cos(2 * math.pi * (s + 1) * n / points), 0.0))

    result = device.buffer(4 * len(values))
    transform(grid=signals, block=points // 2, shared_bytes=points * 16,
              args=[device.buffer(values), result, cuda.int32(points)])
    flat = result.array("f")
    spectrum = [complex(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)]

    half = range(points // 2 + 1)
    peaks = [max(half, key=lambda k: abs(spectrum[s * points + k])) for s in range(signals)]
    answer = {"points": points, "signals": signals, "peaks": peaks[:16]}
    if event.get("check"):
        answer["correct"] = all(_close(values, spectrum, s, points) for s in range(signals))
    return answer


def _close(values, spectrum, s, points):
    """Whether the spectrum of signal s is that of the definition."""
    signal = [complex(values[2 * i], values[2 * i + 1])
              for i in range(s * points, (s + 1) * points)]
    return all(
        abs(spectrum[s * points + k] - sum(x * cmath.exp(-2j * math.pi * k * n / points)
                                           for n, x in enumerate(signal))) < 1e-3 * points
        for k in range(points))
