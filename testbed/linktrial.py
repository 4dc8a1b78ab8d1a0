"""Puts every direction of every link to the test at once, and works its figures out."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from testbed.linkfigures import LinkFigures, Tally, Train, link_figures, percentile
from testbed.linkprobe import SMALL_FRAME_BYTES, Direction, LinkProbe
from testbed.shaping import (
    ETHERNET_HEADER_BYTES,
    QueueState,
    Shape,
    difference,
    read_interfaces,
    read_queues,
    serialisation_ns,
)
from testbed.timers import precise_timers

NS_PER_S = 1_000_000_000
_SPACING_NS = 1_013_700
"""No divisor in common with the kernel's tick, nor with delays."""
_PATIENCE_NS = 1_000_000_000
"""How long to wait for frames beyond the time that they should take."""
_SLICE = 8
"""Frames that keep a link busy until it is fed again; two slices begin."""
_MTU_STEPS = 16
"""Halvings from the largest packet of IPv4 to one byte."""
_LARGEST_PACKET_BYTES = 65535


@dataclass(frozen=True)
class Effort:
    """How many frames to spend on each direction."""

    spaced: int
    burst: int
    sustained: int

    @property
    def frames(self) -> int:
        """The most that are sent, those for the MTU included, and room for as many copies."""
        return 2 * (self.spaced + self.burst + self.sustained + _MTU_STEPS + 3)


SHORT = Effort(spaced=8, burst=8, sustained=0)
"""Before an experiment."""
FULL = Effort(spaced=100, burst=32, sustained=320)
"""`make verify`."""


@dataclass(frozen=True)
class Trial:
    """What was measured."""

    links: tuple[LinkFigures, ...]
    timer_late_us: float
    """99th percentile of how late the sender woke up."""


@dataclass(frozen=True, order=True)
class Slot:
    """So many frames of one train at one time, in one direction."""

    due_ns: int
    direction: int
    train: int
    frames: int = field(compare=False)
    frame_bytes: int = field(compare=False)


def try_links(directions: Sequence[Direction], mtu_bytes: int, effort: Effort) -> Trial:
    """Measure all directions of a network that carries nothing else.

    Raises
    ------
    MachineError
        The kernel has no packet sockets with rings.
    """
    members = [direction.shaped for direction in directions]
    shapes = [member.shape for member in members]
    before, dropped_before = _queues(directions), _interface_drops(directions)
    with LinkProbe(directions, effort.frames) as probe, precise_timers():
        late_ns, sent = play(probe, slots(shapes, mtu_bytes, effort))
        most = max(effort.burst, 2 * _SLICE)
        _settle(max((_flight_ns(s, mtu_bytes, most) for s in shapes), default=0))
        after, dropped = _queues(directions), _interface_drops(directions)
        arrivals = [probe.arrivals(index) for index in range(len(directions))]
        overflow = [probe.overflow(index) for index in range(len(directions))]
        largest = find_mtu(_passing(probe, shapes), len(directions), mtu_bytes)
    links = tuple(
        link_figures(
            member.link,
            member.shape,
            arrivals[index],
            Tally(
                sent=sent[index],
                mtu_asked_bytes=mtu_bytes,
                mtu_bytes=largest[index],
                shaper_drops=_dropped(after[index]) - _dropped(before[index]),
                # What one end refuses, a virtual link counts at both.
                interface_drops=int((dropped - dropped_before)[index].max()),
                socket_drops=overflow[index],
                shaper=difference(member.shape, after[index]),
            ),
        )
        for index, member in enumerate(members)
    )
    return Trial(links, (percentile(np.array(late_ns, dtype=np.float64), 99.0) or 0.0) / 1e3)


def slots(shapes: Sequence[Shape], mtu_bytes: int, effort: Effort) -> list[Slot]:
    """When to send what, in order; times from the start.

    When the first frame has come everywhere, small ones, far enough apart that none waits
    for another; when these are off the sender, a burst; and when that has left the shaper,
    frames without a gap for as long as they last, fed in slices, so that the queue never
    runs empty nor grows.
    """
    found = []
    small_bytes, full_bytes = SMALL_FRAME_BYTES, mtu_bytes + ETHERNET_HEADER_BYTES
    known_ns = _SPACING_NS + max((_flight_ns(s, small_bytes, 1) for s in shapes), default=0)
    for index, shape in enumerate(shapes):
        found.append(Slot(0, index, Train.FIRST, 1, small_bytes))
        small_ns = serialisation_ns(small_bytes, shape.rate_bytes_per_s)
        spacing_ns = max(_SPACING_NS, 2 * small_ns)
        at_ns = known_ns
        for _ in range(effort.spaced):
            found.append(Slot(at_ns, index, Train.SPACED, 1, small_bytes))
            at_ns += spacing_ns
        found.append(Slot(at_ns, index, Train.BURST, effort.burst, full_bytes))
        full_ns = serialisation_ns(full_bytes, shape.rate_bytes_per_s)
        at_ns += (effort.burst + 1) * full_ns
        for first in range(0, effort.sustained, _SLICE):
            due_ns = at_ns + max(0, first - _SLICE) * full_ns
            frames = min(_SLICE, effort.sustained - first)
            found.append(Slot(due_ns, index, Train.SUSTAINED, frames, full_bytes))
    return sorted(found)


def play(probe: LinkProbe, planned: Sequence[Slot]) -> tuple[list[int], list[int]]:
    """Send everything on time.

    Returns
    -------
    late_ns
        How late each slot that had to be waited for was.
    sent
        Frames that left, by direction.
    """
    count = 1 + max((slot.direction for slot in planned), default=-1)
    late_ns, sent = [], [0] * count
    start_ns = time.monotonic_ns()
    now_ns = start_ns
    for slot in planned:
        due_ns = start_ns + slot.due_ns
        if due_ns > now_ns:
            time.sleep((due_ns - now_ns) / NS_PER_S)
            now_ns = time.monotonic_ns()
            late_ns.append(now_ns - due_ns)
        for _ in range(slot.frames):
            sent[slot.direction] += probe.send(slot.direction, slot.train, slot.frame_bytes)
    return late_ns, sent


def find_mtu(
    passing: Callable[[Mapping[int, int]], set[int]], count: int, expected_bytes: int
) -> list[int]:
    """The largest packet that passes, for each of some directions, by halving.

    Where the expected one passes and the next larger does not, that is all it takes.

    Parameters
    ----------
    passing
        Tries packets of given sizes, by direction, and tells which pass.
    count, expected_bytes
        Directions, and the MTU that each should have.

    Returns
    -------
    list of int
        0 where not even one byte passes.
    """
    everyone = range(count)
    fits = passing(dict.fromkeys(everyone, expected_bytes))
    exceeds = passing(dict.fromkeys(everyone, expected_bytes + 1))
    low = [expected_bytes + (k in exceeds) if k in fits else 0 for k in everyone]
    high = [_above(k in fits, k in exceeds, expected_bytes) for k in everyone]
    while open_ := {k: (low[k] + high[k]) // 2 for k in everyone if high[k] - low[k] > 1}:
        passed = passing(open_)
        for k, size in open_.items():
            (low if k in passed else high)[k] = size
    return low


def _above(fits: bool, exceeds: bool, expected_bytes: int) -> int:
    """A size that does not pass, as far as the first two probes tell."""
    if fits and exceeds:
        return _LARGEST_PACKET_BYTES + 1
    return expected_bytes + 1 if fits else expected_bytes


def _passing(probe: LinkProbe, shapes: Sequence[Shape]) -> Callable[[Mapping[int, int]], set[int]]:
    """Tries packets of given sizes on the probed directions."""
    train = Train.SIZES - 1

    def passing(sizes: Mapping[int, int]) -> set[int]:
        nonlocal train
        train += 1
        left = [k for k in sizes if probe.send(k, train, sizes[k] + ETHERNET_HEADER_BYTES)]
        _settle(max((_flight_ns(shapes[k], sizes[k], 1) for k in left), default=0))
        return {k for k in left if (probe.arrivals(k)["train"] == train).any()}

    return passing


def _flight_ns(shape: Shape, packet_bytes: int, frames: int) -> int:
    """How long so many frames take that leave at once."""
    frame_bytes = packet_bytes + ETHERNET_HEADER_BYTES
    return shape.delay_ns + frames * serialisation_ns(frame_bytes, shape.rate_bytes_per_s)


def _settle(flight_ns: int) -> None:
    time.sleep((flight_ns + _PATIENCE_NS) / NS_PER_S)


def _queues(directions: Sequence[Direction]) -> list[QueueState | None]:
    """The shaper of each direction."""
    found = {m.link: state for m, state in read_queues([d.shaped for d in directions])}
    return [found[direction.link] for direction in directions]


def _interface_drops(directions: Sequence[Direction]) -> npt.NDArray[np.int64]:
    """Packets that each direction's two ends have dropped so far; shape (directions, 2)."""
    ends = [end for direction in directions for end in (direction.shaped, direction.target)]
    counted = read_interfaces(list({end.link: end for end in ends}.values()))
    rows = [(counted[d.shaped.link], counted[d.target.link]) for d in directions]
    return np.array([(near.tx_dropped, far.rx_dropped + far.rx_errors) for near, far in rows])


def _dropped(state: QueueState | None) -> int:
    return 0 if state is None else state.drops
