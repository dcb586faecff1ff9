"""What goes wrong while a graph is built."""
import difflib
from typing import Iterable


class GraphError(ValueError):
    """The graph would not make sense; says what, at the line that asked for it."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """"; did you mean 'x'?" for the closest of the known words, or nothing."""
    close = difflib.get_close_matches(word, list(known), 1)
    return "; did you mean '%s'?" % close[0] if close else ""
