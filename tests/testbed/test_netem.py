"""Impairments in binary; `test_shaping` takes whole shapes there and back."""

from testbed.impairment import Impairment, burst_thresholds
from testbed.netem import decode_impairment, encode_impairment
from testbed.netlink import attributes


def test_losses_in_bursts_are_a_chain_and_no_threshold() -> None:
    enter, leave = burst_thresholds(1, 10)
    (loss, gap, duplicate), data = encode_impairment(
        Impairment(enter_burst=enter, leave_burst=leave)
    )
    assert (loss, gap, duplicate) == (0, 0, 0)
    assert decode_impairment(0, 0, 0, attributes(data)) == Impairment(
        enter_burst=enter, leave_burst=leave
    )
