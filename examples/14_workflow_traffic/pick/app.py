"""From what SSD says of a frame to pictures of its cars and people, as objects for the networks that
look at them.

A frame has 300 x 300 pixels, for networks of true shape, or 150 x 150 for the small ones that compute.
Those of true shape are modelled and find nothing: with "found": {"cars": 2, "people": 1} in the request,
so many places are taken as found without a look at the boxes. For small ones that is refused."""
import array
import math

from lambent import objects

CAR, PERSON = 7, 15  # among the classes of Pascal VOC, the background being 0
SCORE, OVERLAP, MOST = 0.5, 0.45, 20
# Of each map of SSD300: places along a side, the smallest box and the next map's, and ratios of sides.
MAPS = ((38, 30, 60, (2,)), (19, 60, 111, (2, 3)), (10, 111, 162, (2, 3)), (5, 162, 213, (2, 3)),
        (3, 213, 264, (2,)), (1, 264, 315, (2,)))
FRAME, SIZE = 300, 224  # of a frame, and of the pictures that go out
SMALL_FRAME, SMALL_SIZE = 150, 64
# The small form's are half as large, and the last one is missing.
SMALL_MAPS = ((19, 15, 30, (2,)), (10, 30, 55.5, (2, 3)), (5, 55.5, 81, (2, 3)), (3, 81, 106.5, (2, 3)),
              (1, 106.5, 132, (2,)))


def shapes(smallest, largest, ratios):
    """The boxes (width, height) that stand at each place of a map."""
    yield smallest, smallest
    yield math.sqrt(smallest * largest), math.sqrt(smallest * largest)
    for ratio in ratios:
        side = math.sqrt(ratio)
        yield smallest * side, smallest / side
        yield smallest / side, smallest * side


def detections(numbers, maps=MAPS, classes=21, frame=FRAME):
    """(score, class, (left, top, right, bottom)) of what the numbers are sure of, the surest first, without
    those that overlap a surer one of their class. Their order is that of ssd300's output."""
    found, at = [], 0
    for side, smallest, largest, ratios in maps:
        for width, height in shapes(smallest, largest, ratios):
            for place in range(side * side):
                values = [numbers[at + i * side * side + place] for i in range(classes + 4)]
                top = max(values[:classes])
                powers = [math.exp(value - top) for value in values[:classes]]
                best = max(range(1, classes), key=powers.__getitem__)
                score = powers[best] / sum(powers)
                if score < SCORE:
                    continue
                dx, dy, dw, dh = values[classes:]
                x = (place % side + 0.5) * frame / side + dx * 0.1 * width
                y = (place // side + 0.5) * frame / side + dy * 0.1 * height
                half_width = width * math.exp(min(dw * 0.2, 5)) / 2
                half_height = height * math.exp(min(dh * 0.2, 5)) / 2
                box = (x - half_width, y - half_height, x + half_width, y + half_height)
                found.append((score, best, tuple(min(max(edge, 0), frame) for edge in box)))
            at += (classes + 4) * side * side
    kept = []
    for one in sorted(found, reverse=True):
        if all(one[1] != other[1] or overlap(one[2], other[2]) <= OVERLAP for other in kept):
            kept.append(one)
        if len(kept) == MOST:
            break
    return kept


def overlap(a, b):
    """The share of what both cover that both cover together."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def crop(frame, side, box, size=SIZE):
    """That part of the frame, 3 x side x side, as 3 x size x size: the nearest pixel of each."""
    left, top, right, bottom = box
    columns = [min(side - 1, int(left + (i + 0.5) * (right - left) / size)) for i in range(size)]
    out = array.array("f")
    for channel in range(3):
        for i in range(size):
            row = min(side - 1, int(top + (i + 0.5) * (bottom - top) / size))
            begin = (channel * side + row) * side
            out.extend([frame[begin + column] for column in columns])
    return out


def handler(event, context):
    request = event["request"]
    frame = array.array("f", bytes(objects.get(request["frame"])))
    side = math.isqrt(len(frame) // 3)
    if side not in (FRAME, SMALL_FRAME):
        raise ValueError("a frame has %d or %d pixels a side, not %d" % (FRAME, SMALL_FRAME, side))
    maps, size = (MAPS, SIZE) if side == FRAME else (SMALL_MAPS, SMALL_SIZE)
    if "found" in request:
        if side == SMALL_FRAME:
            raise ValueError("'found' is for modelled networks; the small ones see what is in the frame")
        whole = (0, 0, side, side)
        found = [(1, kind, whole) for kind, name in ((CAR, "cars"), (PERSON, "people"))
                 for _ in range(request["found"].get(name, 0))]
    else:
        found = detections(array.array("f", bytes(objects.get(event["boxes"]))), maps, frame=side)
    pictures = {CAR: [], PERSON: []}
    for _, kind, box in found:
        if kind in pictures:
            picture = crop(frame, side, box, size)
            pictures[kind].append(objects.put(picture, datatype="FP32", shape=(3, size, size), ttl=60))
    return {"cars": pictures[CAR], "people": pictures[PERSON]}
