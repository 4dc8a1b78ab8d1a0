"""How long to wait for an answer before asking again: RFC 6298, for a server close by.

Ours are the constants: the server is one link away, so an answer takes microseconds
to milliseconds, and the RFC's second would be longer than what a ring holds.
"""

BACKOFF = 1.5
_MOST_RETRIES = 16  # 1.5 ** 16 is far above any ceiling


class Rto:
    """Smoothed round-trip time, its variation, and the time-out that follows.

    Parameters
    ----------
    initial_ns
        Time-out before the first measurement.
    floor_ns
        Least time-out, and least margin above the smoothed round-trip time
        (the RFC's clock granularity G).
    ceiling_ns
        Longest time-out.
    """

    def __init__(self, initial_ns: int, floor_ns: int, ceiling_ns: int) -> None:
        self.srtt_ns: float | None = None
        self._variation_ns = 0.0
        self._initial_ns = initial_ns
        self._floor_ns = floor_ns
        self._ceiling_ns = ceiling_ns
        self._backed_off = 0
        self._backs_off_ns = 0

    def sample(self, rtt_ns: int) -> None:
        """Take a measurement, of a request that was made once (Karn 1987); RFC 6298, (2.2, 2.3)."""
        self._backed_off = 0
        if self.srtt_ns is None:
            self.srtt_ns, self._variation_ns = float(rtt_ns), rtt_ns / 2
            return
        self._variation_ns += (abs(self.srtt_ns - rtt_ns) - self._variation_ns) / 4
        self.srtt_ns += (rtt_ns - self.srtt_ns) / 8

    def back_off(self, now_ns: int) -> None:
        """An answer did not come in time: wait longer from now on, until one is measured.

        Counts once a time-out, however many answers fail to come in it: what is lost by
        chance must not look like a path that has died.
        """
        if now_ns >= self._backs_off_ns:
            self._backed_off = min(_MOST_RETRIES, self._backed_off + 1)
            self._backs_off_ns = now_ns + self.timeout_ns()

    def timeout_ns(self, tries: int = 1) -> int:
        """Time to wait after a request has been made for the ``tries``-th time."""
        if self.srtt_ns is None:
            base_ns = float(self._initial_ns)
        else:
            margin_ns = max(float(self._floor_ns), 4 * self._variation_ns)
            base_ns = max(float(self._floor_ns), self.srtt_ns + margin_ns)
        factor = BACKOFF ** min(_MOST_RETRIES, max(tries - 1, self._backed_off))
        return int(min(self._ceiling_ns, base_ns * factor))
