"""How long gaps stayed open: counts by powers of two of a microsecond."""

from collections import Counter
from typing import Any

NS_PER_US = 1000


class Histogram:
    """Times, in bins that double; bounded however many there are."""

    def __init__(self) -> None:
        self._bins: Counter[int] = Counter()
        self._total_ns = 0
        self._longest_ns = 0

    def add(self, took_ns: int, count: int) -> None:
        """Count a time ``count`` times."""
        self._bins[(took_ns // NS_PER_US).bit_length()] += count
        self._total_ns += took_ns * count
        self._longest_ns = max(self._longest_ns, took_ns)

    def report(self) -> dict[str, Any]:
        """Plain values.

        Returns
        -------
        dict
            ``count``, ``mean_us``, ``max_us`` (None without any), and ``below_us``:
            upper end of each bin that is not empty to the number of times in it.
        """
        count = sum(self._bins.values())
        return {
            "count": count,
            "mean_us": self._total_ns / count / NS_PER_US if count else None,
            "max_us": self._longest_ns / NS_PER_US if count else None,
            "below_us": {str(1 << width): n for width, n in sorted(self._bins.items())},
        }
