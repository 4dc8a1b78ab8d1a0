"""A token bucket: how many datagrams may be asked for or sent again."""

NS_PER_S = 1_000_000_000
_DEPTH_S = 0.02
_LEAST_DEPTH = 32


def datagram_bucket(link_gbps: float, share: float, wire_bytes: int) -> "TokenBucket":
    """Bucket of datagrams that may take a share of a link; it saves 20 ms of that up."""
    rate_per_s = share * link_gbps * 1e9 / 8 / wire_bytes
    return TokenBucket(rate_per_s, max(_LEAST_DEPTH, rate_per_s * _DEPTH_S))


class TokenBucket:
    """Tokens that come at a constant rate, up to a depth; full at the beginning.

    Parameters
    ----------
    rate_per_s
        Tokens per second.
    depth
        Most that are kept, at least 1.
    """

    def __init__(self, rate_per_s: float, depth: float) -> None:
        self._rate_per_ns = rate_per_s / NS_PER_S
        self._depth = max(1.0, depth)
        self._level = self._depth
        self._at_ns: int | None = None

    def take(self, wanted: int, now_ns: int) -> int:
        """Take as many whole tokens as there are, ``wanted`` at most."""
        if self._at_ns is not None and now_ns > self._at_ns:
            gained = (now_ns - self._at_ns) * self._rate_per_ns
            self._level = min(self._depth, self._level + gained)
        self._at_ns = now_ns if self._at_ns is None else max(self._at_ns, now_ns)
        granted = min(wanted, int(self._level))
        self._level -= granted
        return granted

    def ready_ns(self, now_ns: int) -> int:
        """When there is a token again, after `take` has given less than was wanted."""
        lacking = max(0.0, 1.0 - self._level)
        return now_ns + int(lacking / self._rate_per_ns) + 1
