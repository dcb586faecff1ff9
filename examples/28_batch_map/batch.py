"""10,000 items through a function, many at once: lambent run batch.py::summarise 1 2 3, or python3 batch.py"""
import sys
import time

import lambent

app = lambent.App("batch")
ITEMS = 10_000
CHUNK = 100  # items of one call: a call costs a fraction of a millisecond, and an item less


class BadItem(Exception):
    def __init__(self, item: int) -> None:
        super().__init__(f"item {item} cannot be read")
        self.item = item

    def __reduce__(self) -> "tuple[type[BadItem], tuple[int]]":  # so that it comes back as it is
        return BadItem, (self.item,)


def work(item: int) -> int:
    """What is done for one item: an image, a document, a row."""
    if item < 0:
        raise BadItem(item)
    return item * item % 97


@app.function(memory="256M", max_concurrency=8)
def summarise(*items: int) -> "list[int | str]":
    """A failure of one item is its answer, and not that of the whole chunk."""
    answers: "list[int | str]" = []
    for item in items:
        try:
            answers.append(work(item))
        except BadItem as error:
            answers.append(str(error))
    return answers


def main() -> int:
    items = list(range(ITEMS))
    items[77] = -77  # one that fails
    chunks = [items[at:at + CHUNK] for at in range(0, len(items), CHUNK)]
    with app.run():
        began = time.monotonic()
        answers = [answer for chunk in summarise.starmap(chunks, at_once=16) for answer in chunk]
        took = time.monotonic() - began
    failed = [answer for answer in answers if isinstance(answer, str)]
    good = [answer for answer in answers if isinstance(answer, int)]
    print(f"{len(answers)} items, {len(failed)} failed: {failed[0]}")
    print(f"sum {sum(good)}")
    print(f"{len(answers) / took:.0f} items a second", file=sys.stderr)
    return 0 if len(answers) == ITEMS else 1


if __name__ == "__main__":
    sys.exit(main())
