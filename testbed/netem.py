"""Impairments as ``netem`` takes and tells them: options and netlink attributes."""

import struct
from collections.abc import Mapping

from testbed.impairment import Impairment
from testbed.netlink import attribute, attributes

# <linux/pkt_sched.h>: TCA_NETEM_*, NETEM_LOSS_GE, struct tc_netem_gemodel
_CORRELATION, _REORDER, _CORRUPT, _LOSS, _ECN = 1, 3, 4, 5, 7
_JITTER64, _SLOT = 11, 12
_GILBERT_ELLIOTT = 2
_CHAIN = struct.Struct("=4I")
_PAIR = struct.Struct("=2I")
_TRIPLE = struct.Struct("=3I")
_NANOSECONDS = struct.Struct("=q")


def encode_impairment(impairment: Impairment) -> tuple[tuple[int, int, int], bytes]:
    """What ``netem`` needs for an impairment.

    Everything is named, zeros as well: ``netem`` keeps what is not.

    Returns
    -------
    tuple
        Loss, gap and duplicate of ``struct tc_netem_qopt``; attributes to follow it.
    """
    # Every packet may overtake (gap 1), not only one in so many.
    gap = 1 if impairment.reorder else 0
    data = attribute(_CORRELATION, _TRIPLE.pack(0, 0, 0))
    data += attribute(_REORDER, _PAIR.pack(impairment.reorder, 0))
    data += attribute(_JITTER64, _NANOSECONDS.pack(impairment.jitter_ns // 2))
    if impairment.enter_burst:
        chain = _CHAIN.pack(impairment.enter_burst, impairment.leave_burst, 0, 0)
        data += attribute(_LOSS, attribute(_GILBERT_ELLIOTT, chain))
    return (impairment.loss, gap, impairment.duplicate), data


def decode_impairment(
    loss: int, gap: int, duplicate: int, found: Mapping[int, bytes]
) -> Impairment | None:
    """The impairment of a ``netem``, from its options; ``None`` for one that is not ours.

    Not ours are correlations, corruption, slots, marks instead of losses, other
    loss models, and a gap other than 0 or 1.
    """
    reorder, correlation = _PAIR.unpack(found.get(_REORDER, bytes(8)))
    strange = [correlation, found.get(_SLOT)]
    strange += _TRIPLE.unpack(found.get(_CORRELATION, bytes(12)))
    strange += _PAIR.unpack(found.get(_CORRUPT, bytes(8)))
    strange += [any(found.get(_ECN, b"")), gap not in (0, 1), gap == 0 and reorder]
    chain = (0, 0, 0, 0)
    if _LOSS in found:
        models = attributes(found[_LOSS])
        if set(models) != {_GILBERT_ELLIOTT}:
            return None
        chain = _CHAIN.unpack(models[_GILBERT_ELLIOTT])
    (half_jitter_ns,) = _NANOSECONDS.unpack(found.get(_JITTER64, bytes(8)))
    if any(strange) or any(chain[2:]):
        return None
    return Impairment(loss, duplicate, reorder, chain[0], chain[1], 2 * half_jitter_ns)
