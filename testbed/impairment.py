"""What a link does to packets beside rate and delay, in the kernel's own numbers.

``netem`` compares 32-bit random numbers with thresholds. Here shares that people
write become those thresholds, so that what was asked for can be compared exactly
with what the kernel says.
"""

from dataclasses import dataclass

from testbed.errors import InputError

_STEPS = 1 << 32
_U32_MAX = _STEPS - 1


@dataclass(frozen=True)
class Impairment:
    """Faults of one direction of a link; all zero: none.

    Attributes
    ----------
    loss, duplicate, reorder
        Thresholds: a packet is hit with probability (threshold + 1) / 2³²; 0: never.
    enter_burst, leave_burst
        Thresholds of the loss chain (`burst_thresholds`); a step is taken with
        probability threshold / 2³². Both 0: losses are independent.
    jitter_ns
        A packet takes up to so much longer, equally distributed. As the link has
        a rate, it does not overtake: who comes later leaves later.
    """

    loss: int = 0
    duplicate: int = 0
    reorder: int = 0
    enter_burst: int = 0
    leave_burst: int = 0
    jitter_ns: int = 0

    @property
    def loss_share(self) -> float:
        """Share of packets that are lost in the long run."""
        if self.enter_burst:
            return self.enter_burst / (self.enter_burst + self.leave_burst)
        return (self.loss + 1) / _STEPS if self.loss else 0.0

    @property
    def duplicate_share(self) -> float:
        """Share of packets of which a second copy is made."""
        return (self.duplicate + 1) / _STEPS if self.duplicate else 0.0

    @property
    def mean_burst(self) -> float:
        """Mean length of a run of lost packets."""
        if self.enter_burst:
            return _STEPS / self.leave_burst
        return 1.0 / (1.0 - self.loss_share) if self.loss_share < 1 else float("inf")


NONE = Impairment()


def threshold(percent: float) -> int:
    """The number that makes ``netem`` hit so many percent of the packets.

    It hits if the number is not below a random one of 32 bits, and never if it is 0:
    so 0 stays 0, and the least share above is 2 / 2³² (from ``netem_enqueue`` of Linux).
    """
    return max(1, min(_U32_MAX, round(percent / 100 * _STEPS) - 1)) if percent else 0


def burst_thresholds(loss_percent: float, mean_burst: float) -> tuple[int, int]:
    """The loss chain of Gilbert (1960) that loses a share in runs of a mean length.

    A chain of two states, good and bad; in the bad one every packet is lost, in the
    good one none. With r = 1 / burst out of the bad state and p into it, the runs
    of losses are geometric with mean 1 / r, and the share lost is p / (p + r).

    Returns
    -------
    tuple
        p and r as thresholds: (enter_burst, leave_burst).

    Raises
    ------
    InputError
        So much loss cannot come in such short runs.
    """
    share, leave = loss_percent / 100, 1 / mean_burst
    if share >= 1:
        raise InputError("losses in bursts must leave some packets: use less than 100 %")
    enter = share * leave / (1 - share)
    if enter > 1:
        raise InputError(
            f"runs of {mean_burst:g} lost packets, one at least surviving between two, cannot "
            f"make up {loss_percent:g} % of loss: use runs of {share / (1 - share):.3g} or more"
        )
    return _step(enter), _step(leave)


def _step(probability: float) -> int:
    return max(1, min(_U32_MAX, round(probability * _STEPS)))
