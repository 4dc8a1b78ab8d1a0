"""What a round has to carry and under which rules: the planner's terms for one round."""

import math
from dataclasses import dataclass

from testbed.errors import InputError, suggestion

RATES = ("common", "per-stream", "time-varying", "unpaced")
"""How senders pace.

``common``: one constant rate for all streams of a round. The default, since it
is the model that reproduces the published round times. ``per-stream``: constant
rates of their own, never slower. ``time-varying``: rates that change over time,
never slower still. ``unpaced``: everybody at full speed from chosen times on;
links queue, which none of the others makes them do.
"""

MEMORY_MODELS = ("accumulate", "hold")
"""One accumulator for each weight, or one buffer for each sender."""

_BYTES_PER_GBPS_MS = 1e6 / 8


@dataclass(frozen=True)
class Demand:
    """Payload, memory and rules of a round.

    Attributes
    ----------
    payload_bytes
        Of one stream on the wire.
    memory_bytes
        Of one city's aggregator.
    multicast, aggregation
        Whether the network copies, and whether it adds up.
    rates
        One of `RATES`.
    memory_model
        One of `MEMORY_MODELS`. Held are, at any time, ``accumulate``: what the
        leading stream has brought and the trailing one has not; ``hold``: the
        same of every stream, added up.
    resend_ms
        How long the aggregator keeps what it has sent on to its island; at the
        rate of the island's access link this takes a part of the same memory.
    """

    payload_bytes: float
    memory_bytes: float
    multicast: bool = True
    aggregation: bool = True
    rates: str = "common"
    memory_model: str = "accumulate"
    resend_ms: float = 0.0

    def check(self) -> None:
        """Refuse what makes no sense.

        Raises
        ------
        InputError
            A number that is out of its range or none, or an unknown name.
        """
        if not (math.isfinite(self.payload_bytes) and self.payload_bytes > 0):
            raise InputError(f"payload must be a number above 0, not {self.payload_bytes:g}")
        if not (math.isfinite(self.memory_bytes) and self.memory_bytes >= 0):
            raise InputError(
                f"memory must be a number of bytes, 0 or more, not {self.memory_bytes:g}"
            )
        if not (math.isfinite(self.resend_ms) and self.resend_ms >= 0):
            raise InputError(f"resend_ms must be a number, 0 or more, not {self.resend_ms:g}")
        for what, name, valid in (
            ("rates", self.rates, RATES),
            ("memory model", self.memory_model, MEMORY_MODELS),
        ):
            if name not in valid:
                raise InputError(f'unknown {what} "{name}"; {suggestion(name, valid)}')

    def kept_bytes(self, access_gbps: float) -> float:
        """Resend buffer of the aggregator of an island with such an access link."""
        return resend_bytes(self.resend_ms, access_gbps) if self.aggregation else 0.0

    def room_bytes(self, access_gbps: float) -> float:
        """What the resend buffer leaves of the memory; less than nothing if it does not fit."""
        return self.memory_bytes - self.kept_bytes(access_gbps)

    def memory_binds(self, senders: int, access_gbps: float) -> bool:
        """Whether a receiver's memory can limit a round at all.

        Not without aggregation, and not if all that it could ever hold fits:
        one payload (``hold``: one for each other sender) beside the resend buffer.

        Parameters
        ----------
        senders
            Streams that come together at the receiver.
        access_gbps
            Fastest access link.
        """
        if not self.aggregation:
            return False
        payloads = 1 if self.memory_model == "accumulate" else senders - 1
        return self.room_bytes(access_gbps) < self.payload_bytes * payloads


def resend_bytes(resend_ms: float, access_gbps: float) -> float:
    """Size of a resend buffer (ours): so long an output at the rate of the access link.

    The output is never faster, so whatever left in that time is still there.
    """
    return resend_ms * access_gbps * _BYTES_PER_GBPS_MS
