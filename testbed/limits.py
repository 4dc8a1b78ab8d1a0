"""How far an emulated network may be from the one asked for, on either clock."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from testbed.findings import Level
from testbed.topology import Frozen

Clock = Literal["virtual", "real"]


class Limits(Frozen):
    """Limits of the fidelity check; what is not given is the default of the clock."""

    delay_us: float | None = Field(None, ge=0, description="error of mean and p99 one-way delay")
    jitter_us: float | None = Field(None, ge=0, description="of the one-way delay")
    rate_percent: float | None = Field(None, ge=0, description="error of a link's rate")
    lost_packets: float | None = Field(None, ge=0, description="probes of one direction")
    reordered_packets: float | None = Field(None, ge=0, description="probes of one direction")
    rtt_us: float | None = Field(None, ge=0, description="error of a path's round-trip time")
    unaccounted_packets: float | None = Field(
        None, ge=0, description="of the whole run, lost without a trace"
    )
    timer_late_us: float | None = Field(None, ge=0, description="99 % of wake-ups come sooner")
    cpu_percent: float | None = Field(None, ge=0, description="of the machine's processors")
    steal_percent: float | None = Field(None, ge=0, description="taken by other machines")
    fail_factor: float | None = Field(
        None, ge=1, description="beyond a limit is DEGRADED, beyond so many times it FAIL"
    )

    def at(self, clock: Clock) -> "Limits":
        """With the clock's defaults; what is absent then is not judged."""
        given = {name: value for name, value in self if value is not None}
        return DEFAULTS[clock].model_copy(update=given)

    def level(self, name: str, value: float) -> Level | None:
        """What a figure beyond its limit means; none if it is within, or not judged.

        Parameters
        ----------
        name
            Of the limit.
        value
            The figure, or its error without sign.
        """
        limit: float | None = getattr(self, name)
        if limit is None or value <= limit:
            return None
        fails = self.fail_factor is not None and value > limit * self.fail_factor
        return "FAIL" if fails else "DEGRADED"


DEFAULTS: Mapping[Clock, Limits] = MappingProxyType(
    {
        # A frame's serialisation is cut to whole nanoseconds, at each hop; and no timer of the
        # kernel is shorter than 1 µs, so that a frame which is due sooner after some other event
        # comes up to 1 µs late. The machine's load does not matter: time stands still meanwhile.
        "virtual": Limits(
            delay_us=2.0,
            jitter_us=0.5,
            rate_percent=0.1,
            lost_packets=0,
            reordered_packets=0,
            rtt_us=2.0,
            unaccounted_packets=0,
            timer_late_us=10.0,
            fail_factor=1.0,
        ),
        # A host's wake-ups and interrupts come on top; how late they can be, nobody knows.
        "real": Limits(
            delay_us=500.0,
            jitter_us=250.0,
            rate_percent=2.0,
            lost_packets=0,
            reordered_packets=0,
            rtt_us=1000.0,
            unaccounted_packets=0,
            timer_late_us=1000.0,
            cpu_percent=90.0,
            steal_percent=2.0,
        ),
    }
)
