"""Numbers of 32 bits that wrap: sequence numbers and epochs (after RFC 1982)."""

WRAP = 1 << 32
_HALF = WRAP // 2


def unwrap(wire: int, near: int) -> int:
    """The number with these lower 32 bits that is nearest to ``near``; may be negative."""
    return near + (wire - near + _HALF) % WRAP - _HALF


class Epochs:
    """The latest process start of every source: what came before it is stale."""

    def __init__(self) -> None:
        self._latest: dict[int, int] = {}

    def latest(self, source: int) -> int | None:
        """Epoch of a source, if anything has come from it."""
        return self._latest.get(source)

    def admits(self, source: int, epoch: int) -> bool:
        """Whether a datagram is not of an earlier process; a later one becomes the latest."""
        latest = self._latest.setdefault(source, epoch)
        if epoch == latest:
            return True
        if unwrap(epoch, latest) < latest:
            return False
        self._latest[source] = epoch
        return True
