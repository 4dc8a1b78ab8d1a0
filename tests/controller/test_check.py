"""The independent checker finds what is wrong with a plan."""

from collections.abc import Callable

import pytest
from made_networks import NINE, PAYLOAD_BYTES

from controller.check import check_plan
from controller.plan import Plan, Stream
from controller.planner import make_plan
from controller.schedule import load_schedule

GOOD = make_plan(
    NINE,
    load_schedule("triangles", NINE),
    payload_bytes=PAYLOAD_BYTES,
    memory_bytes=0,
    trees="shortest-path",
)


def with_stream(change: Callable[[Stream], dict[str, object]]) -> Plan:
    """The good plan with the first stream of its second round changed (nyc)."""
    planned = GOOD.period[1]
    first = planned.streams[0].model_copy(update=change(planned.streams[0]))
    second = planned.model_copy(update={"streams": (first, *planned.streams[1:])})
    return GOOD.model_copy(update={"period": (GOOD.period[0], second)})


def with_round(**update: object) -> Plan:
    """The good plan with its second round changed."""
    second = GOOD.period[1].model_copy(update=update)
    return GOOD.model_copy(update={"period": (GOOD.period[0], second)})


def test_a_good_plan_has_no_fault() -> None:
    assert check_plan(GOOD) == []


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (with_stream(lambda s: {"offset_ms": s.offset_ms + 10}), "in a memory of 0"),
        (with_stream(lambda s: {"offset_ms": 200.0}), "last byte arrives"),
        (with_stream(lambda s: {"rate_gbps": 2 * s.rate_gbps}), "not its payload"),
        (
            with_stream(lambda s: {"rate_gbps": 2 * s.rate_gbps, "duration_ms": s.duration_ms / 2}),
            "the link nyc–lon carries 133.333 Gbit/s of 100",
        ),
        (with_stream(lambda s: {"edges": s.edges[1:]}), "round 1: tree of nyc"),
        (with_stream(lambda s: {"receivers": s.receivers[:1]}), "exactly the rest of its clique"),
        (with_stream(lambda s: {"sender": "chi"}), "not exactly the members"),
        (with_stream(lambda s: {"delays_ms": dict.fromkeys(s.delays_ms, 1.0)}), "another delay"),
        (with_stream(lambda s: {"paths": {"fra": (), "tyo": ()}}), "does not connect them"),
        (
            with_stream(lambda s: {"paths": {"fra": s.paths["fra"]}}),
            "one path and delay for each receiver",
        ),
        (with_stream(lambda s: {"hub": "sin"}), "the path nyc–fra does not pass the hub sin"),
        (with_round(edge_streams={}), "number of stream copies"),
        (with_round(t_ms=500.0), "T is 500.0"),
        (with_round(cliques=(("nyc", "fra", "tyo"),) * 2), "nyc is in 2 cliques"),
        (with_round(held_bytes=dict.fromkeys(NINE.codes, 1e9)), "predicted 1000000000"),
        (GOOD.model_copy(update={"round_interval_ms": 500.0}), "next round starts before"),
        (GOOD.model_copy(update={"multicast": False}), "has a tree although multicast is off"),
        (
            GOOD.model_copy(
                update={"unicast": {**GOOD.unicast, "nyc": dict.fromkeys(NINE.codes, 0)}}
            ),
            "do not lead to nyc",
        ),
    ],
)
def test_each_fault_is_found(broken: Plan, words: str) -> None:
    assert any(words in fault for fault in check_plan(broken)), check_plan(broken)


def test_streams_into_one_access_link_add_up_without_aggregation() -> None:
    plan = GOOD.model_copy(update={"aggregation": False})
    assert check_plan(plan) == []  # two streams at 33 Gbit/s fit
    fast = with_stream(lambda s: {"rate_gbps": 90.0}).model_copy(update={"aggregation": False})
    assert any("the way into tyo carries 123.333" in fault for fault in check_plan(fast))


def test_unicast_copies_must_follow_the_next_hops() -> None:
    plan = make_plan(
        NINE,
        load_schedule("all-to-all", NINE),
        payload_bytes=PAYLOAD_BYTES,
        memory_bytes=32e9,
        multicast=False,
    )
    assert check_plan(plan) == []
    edges = {(edge.src, edge.dst): edge.index for edge in NINE.edges}
    detour = (edges["nyc", "lon"], edges["lon", "fra"])
    nyc = plan.period[0].streams[0]
    changed = nyc.model_copy(update={"paths": {**nyc.paths, "fra": detour}})
    planned = plan.period[0].model_copy(update={"streams": (changed, *plan.period[0].streams[1:])})
    faults = check_plan(plan.model_copy(update={"period": (planned,)}))
    assert any("is not the way of the next-hop table" in fault for fault in faults)
