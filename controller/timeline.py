"""Rates that change over time: the least T of given trees, slot by slot.

Ours. For a given T, `controller.slotprogram` sends as large a share λ of all
payloads as it can, to each receiver only until T minus the way there; the least
T is where λ = 1, found by bracketing. Slots are finite, so the result is an
upper bound of the real optimum; finer slots come nearer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from controller.demand import Demand
from controller.multicast import Tree, link_time_ms
from controller.roundtiming import RoundTiming
from controller.slotprogram import SlotProgram, Vector
from controller.timing import time_demand
from testbed.errors import InputError
from testbed.topology import Topology

Pieces: TypeAlias = tuple[tuple[float, float, float], ...]
"""Start in ms, end in ms, share of the payload that is sent in between."""

SLOTS = 80
"""Slots in the time that the round takes at constant rates."""
_MAX_STEPS = 25
_NOTHING = 1e-9
# What the solver's tolerance leaves of 1; the amounts are scaled up to 1.
_WHOLE = 1 - 3e-7


@dataclass(frozen=True)
class Timeline:
    """Rates over time of one round.

    Attributes
    ----------
    t_ms
        Round time.
    pieces
        Sender to its pieces of constant rate, in order.
    slot_ms
        Length of a slot.
    """

    t_ms: float
    pieces: Mapping[int, Pieces]
    slot_ms: float


def time_varying(
    topology: Topology,
    trees: Sequence[Tree],
    demand: Demand,
    *,
    slots: int = SLOTS,
    queues: bool = False,
    close_ms: float = 0.02,
) -> Timeline | RoundTiming:
    """Find the least round time if rates may change from slot to slot.

    Parameters
    ----------
    topology, trees, demand
        As for `controller.timing.time_demand`.
    slots
        Slots in the time that the round takes at constant rates.
    queues
        Whether streams may wait in front of links, without limit and each for
        itself. T is then what links that serve the streams in the best order
        would need; first-in-first-out links may need longer.
    close_ms
        How closely the least T of the program is bracketed.

    Returns
    -------
    Timeline or RoundTiming
        The latter if the round is not feasible, or if no slots are better than
        constant rates.

    Raises
    ------
    InputError
        A resend window: its share of the memory follows the rate and is not modelled here.
    """
    if demand.resend_ms:
        raise InputError("time-varying rates are planned without a resend window; set resend_ms 0")
    constant = time_demand(topology, trees, replace(demand, rates="per-stream"))
    if constant.shortfall is not None:
        return constant
    slot_ms = constant.t_ms / slots
    high_ms, high = constant.t_ms, None
    least_ms = max(
        max(tree.delays_ms.values())
        + link_time_ms(demand.payload_bytes, topology.cities[tree.sender].access_rate_gbps)
        for tree in trees
    )
    low_ms, low_share = least_ms - close_ms, 0.0
    high_share = 1.0
    guess_ms, halve, was_enough = high_ms, False, None
    for _ in range(_MAX_STEPS):
        program = SlotProgram(topology, trees, demand, constant, guess_ms, slot_ms, queues=queues)
        share, amounts = program.solve()
        enough = share >= _WHOLE
        if enough:
            high_ms, high_share, high = guess_ms, share, (guess_ms, amounts)
        else:
            low_ms, low_share = guess_ms, share
        if high_ms - low_ms <= close_ms:
            break
        # The secant may creep up to one end; then the other end is halved in.
        halve, was_enough = enough == was_enough and not halve, enough
        guess_ms = _between(low_ms, 0.0 if halve else low_share, high_ms, high_share, close_ms)
    if high is None:
        return constant
    pieces = {tree.sender: _pieces(*high[1][j]) for j, tree in enumerate(trees)}
    t_ms = high[0]
    if not queues:
        t_ms = max(pieces[tree.sender][-1][1] + max(tree.delays_ms.values()) for tree in trees)
    if t_ms >= constant.t_ms:
        return constant
    return Timeline(t_ms, pieces, slot_ms)


def _between(low_ms: float, low: float, high_ms: float, high: float, close_ms: float) -> float:
    """Where λ might be 1: by the secant, kept off the ends; by halves if that is of no use."""
    span = high_ms - low_ms
    if low <= 0 or high <= low:
        return low_ms + span / 2
    secant_ms = low_ms + span * (1 - low) / (high - low) + close_ms / 2
    return float(np.clip(secant_ms, low_ms + span * 0.02, high_ms - span * 0.02))


def _pieces(moments: Vector, amounts: Vector) -> Pieces:
    """Merge neighbouring slots of the same rate, leave out idle ones, add up to 1."""
    amounts = amounts / amounts[-1]
    merged: list[list[float]] = []
    for start, end, sent in zip(moments[:-1], moments[1:], np.diff(amounts), strict=True):
        if sent <= _NOTHING:
            continue
        rate = sent / (end - start)
        if merged and merged[-1][1] == start:
            before = merged[-1][2] / (merged[-1][1] - merged[-1][0])
            if abs(before - rate) <= 1e-6 * rate:
                merged[-1][1] = float(end)
                merged[-1][2] += float(sent)
                continue
        merged.append([float(start), float(end), float(sent)])
    total = sum(piece[2] for piece in merged)
    return tuple((start, end, sent / total) for start, end, sent in merged)
