"""How many nodes a Lambent cluster on Ray asks Ray's autoscaler for, and which it can do without. Pure: no Ray, no clock. Used by
lambent.ray."""
import math
from typing import Any, Dict, List, Optional

UP_AFTER = 3.0  # seconds for which more is to be done than there are places
DOWN_AFTER = 60.0  # seconds for which fewer nodes would be half idle


class Scaling:
    """Between `least` and `most` nodes. A node is a dict: its "node" (name), "slots", "load" (what runs and waits there) and whether
    it is the "home", which stays."""

    def __init__(self, least: int, most: int, down_after: float = DOWN_AFTER) -> None:
        if least == 0:
            raise ValueError("scale: one node has to stay to see the load, so that the least is 1 or more: %r, %r" % (least, most))
        if not 0 < least <= most:
            raise ValueError("scale: the least number of nodes is at most the other, and none is negative: %r, %r" % (least, most))
        self.least, self.most, self._down_after = least, most, down_after
        self._full_since: Optional[float] = None
        self._idle_since: Optional[float] = None

    def wanted(self, nodes: List[Dict[str, Any]], now: float) -> int:
        """How many there are to be. One fewer means that the one of spare() can go."""
        count, load, slots = len(nodes), sum(each["load"] for each in nodes), sum(each["slots"] for each in nodes)
        self._full_since = self._since(self._full_since, load > slots or count < self.least, now)
        # Half of what the others have, so that what comes next does not bring the node back.
        rest = slots - (slots / count if count else 0)
        self._idle_since = self._since(self._idle_since, count > self.least and load <= rest / 2, now)
        if self._full_since is not None and (count < self.least or now - self._full_since >= UP_AFTER):
            # As many as the work needs, and at most twice as many as there are: what waits may be short.
            needed = math.ceil(load / max(1.0, slots / count)) if count else 1
            return max(self.least, min(self.most, max(count + 1, min(needed, 2 * count))))
        if count > self.most or (self._idle_since is not None and now - self._idle_since >= self._down_after):
            self._idle_since = None  # the next one after as long again
            return max(self.least, count - 1)
        return count

    @staticmethod
    def _since(before: Optional[float], holds: bool, now: float) -> Optional[float]:
        if not holds:
            return None
        return now if before is None else before

    @staticmethod
    def spare(nodes: List[Dict[str, Any]]) -> Optional[str]:
        """The one with the least work that is not the home."""
        others = [each for each in nodes if not each["home"]]
        return min(others, key=lambda each: (each["load"], each["node"]))["node"] if others else None
