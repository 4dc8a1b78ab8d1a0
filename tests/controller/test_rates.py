"""Rates of their own, both memory models, the resend window, the FIFO: plans and checker."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_networks import NINE, PAYLOAD_BYTES, STREAM_MS, direct_trees, networks, rounds_of

from controller.check import check_plan
from controller.demand import MEMORY_MODELS, Demand
from controller.planner import make_plan
from controller.schedule import NAMED, Schedule, load_schedule
from controller.timing import GAP, time_demand, time_round
from testbed.errors import InputError
from testbed.topology import City, Link, Topology


def line(*rates_gbps: float) -> Topology:
    """Cities in a row, 10 ms apart."""
    count = len(rates_gbps) + 1
    return Topology(
        name="line",
        cities=tuple(City(code=f"c{i}", name="C", region="r", lat=0, lon=0) for i in range(count)),
        links=tuple(
            Link(a=f"c{i}", b=f"c{i + 1}", delay_ms=10, delay_back_ms=10, rate_gbps=rate)
            for i, rate in enumerate(rates_gbps)
        ),
    )


def test_two_streams_on_one_link_share_it_by_their_delays() -> None:
    """c0–c2 and c1–c3 share c1–c2: 10 + 10 + D_a = 20 + D_b, 1/D_a + 1/D_b = 1/143.2 by hand."""
    plan = make_plan(
        line(100, 100, 100),
        Schedule("crossing", ((("c0", "c3"), ("c1", "c2")),)),
        payload_bytes=PAYLOAD_BYTES,
        memory_bytes=32e9,
        rates="per-stream",
    )
    assert check_plan(plan) == []
    durations = {s.sender: s.duration_ms for s in plan.period[0].streams}
    # Delays are 30 and 10 ms: D_b = D_a + 20.
    assert durations["c1"] == pytest.approx(durations["c0"] + 20, rel=1e-3)
    assert 1 / durations["c0"] + 1 / durations["c1"] == pytest.approx(1 / STREAM_MS, rel=1e-3)
    assert plan.prediction.t_ms < 30 + 2 * STREAM_MS - 9


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("memory_bytes", [0, 0.3e9, 32e9])
@pytest.mark.parametrize("trees", ["shortest-path", "best"])
def test_rates_of_their_own_never_lengthen_a_round(
    name: str, memory_bytes: float, trees: str
) -> None:
    common, own = (
        make_plan(
            NINE,
            load_schedule(name, NINE),
            payload_bytes=PAYLOAD_BYTES,
            memory_bytes=memory_bytes,
            trees=trees,
            rates=rates,
        )
        for rates in ("common", "per-stream")
    )
    assert own.feasible == common.feasible
    if own.feasible:
        assert check_plan(own) == []
        assert all(planned.timing_gap <= GAP for planned in own.period)
        assert own.prediction.t_ms <= common.prediction.t_ms + 1e-6


@pytest.mark.parametrize(
    ("name", "trees", "t_ms"),
    [("triangles", "shortest-path", 520.63), ("triangles", "best", 420.99)],
)
def test_what_rates_of_their_own_gain(name: str, trees: str, t_ms: float) -> None:
    """With common rates 534.48 and 443.50 ms."""
    plan = make_plan(
        NINE,
        load_schedule(name, NINE),
        payload_bytes=PAYLOAD_BYTES,
        memory_bytes=32e9,
        trees=trees,
        rates="per-stream",
    )
    assert plan.prediction.t_ms == pytest.approx(t_ms, rel=GAP)


def timed(memory_bytes: float, **changes: object) -> float:
    """T of a triple without load: delays 10 ms, but 30 from city 2 on."""
    delays_ms = [[0.0, 10.0, 30.0], [10.0, 0.0, 30.0], [30.0, 30.0, 0.0]]
    found = time_demand(
        NINE,
        direct_trees(_square(delays_ms), [(0, 1, 2)]),
        dataclasses.replace(Demand(PAYLOAD_BYTES, memory_bytes), **changes),
    )
    return float("inf") if found.shortfall else found.t_ms


def _square(rows: list[list[float]]):  # type: ignore[no-untyped-def]
    import numpy as np

    return np.array(rows)


@pytest.mark.parametrize("model", MEMORY_MODELS)
def test_the_resend_buffer_leaves_the_rest_of_the_memory(model: str) -> None:
    # 14.32 ms at 100 Gbit/s are a tenth of the payload.
    kept = {"resend_ms": 14.32, "memory_model": model}
    for share in (0.0, 0.1, 0.4):
        assert timed((share + 0.1) * PAYLOAD_BYTES, **kept) == pytest.approx(
            timed(share * PAYLOAD_BYTES, memory_model=model), abs=1e-3
        )
    assert timed(0.0999 * PAYLOAD_BYTES, **kept) == float("inf")


def test_a_resend_buffer_that_does_not_fit_is_refused_for_a_single_sender_too() -> None:
    plan = make_plan(
        NINE,
        load_schedule("pairs", NINE),
        payload_bytes=PAYLOAD_BYTES,
        memory_bytes=124e6,
        resend_ms=10,
    )
    assert not plan.feasible


def test_holding_every_stream_needs_more_memory() -> None:
    plans = {
        model: make_plan(
            NINE,
            load_schedule("all-to-all", NINE),
            payload_bytes=PAYLOAD_BYTES,
            memory_bytes=0.3e9,
            trees="shortest-path",
            memory_model=model,
        )
        for model in MEMORY_MODELS
    }
    for plan in plans.values():
        assert check_plan(plan) == []
    assert plans["hold"].prediction.t_ms > 1.5 * plans["accumulate"].prediction.t_ms


@settings(max_examples=40)
@given(data=st.data())
def test_any_demand_passes_the_independent_checker(data: st.DataObject) -> None:
    topology = data.draw(networks())
    payload_bytes = data.draw(st.sampled_from([1e4, 1e7, 2e9]))
    share = data.draw(st.sampled_from([0.0, 0.01, 0.3, 1.0, 5.0]))
    made = make_plan(
        topology,
        Schedule("drawn", (data.draw(rounds_of(topology.codes)),)),
        payload_bytes=payload_bytes,
        memory_bytes=share * payload_bytes,
        multicast=data.draw(st.booleans()),
        aggregation=data.draw(st.booleans()),
        rates=data.draw(st.sampled_from(["common", "per-stream"])),
        memory_model=data.draw(st.sampled_from(MEMORY_MODELS)),
        resend_ms=data.draw(st.sampled_from([0.0, 0.1, 20.0])),
    )
    faults = check_plan(made)
    if made.feasible:
        assert faults == []
    else:
        assert faults
        assert all("in a memory of" in fault for fault in faults)


@settings(max_examples=30)
@given(data=st.data())
def test_t_never_rises_with_memory_or_capacity(data: st.DataObject) -> None:
    topology = data.draw(networks(most=5))
    schedule = Schedule("drawn", (data.draw(rounds_of(topology.codes)),))
    less, more = sorted(
        data.draw(st.tuples(*[st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0, 2.0, 9.0])] * 2))
    )
    model = data.draw(st.sampled_from(MEMORY_MODELS))
    trees = data.draw(st.sampled_from(["shortest-path", "best", "hub"]))

    def t_ms(where: Topology, share: float) -> float:
        plan = make_plan(
            where,
            schedule,
            payload_bytes=1e8,
            memory_bytes=share * 1e8,
            trees=trees,
            memory_model=model,
        )
        return plan.prediction.t_ms if plan.feasible else float("inf")

    small = t_ms(topology, less)
    # The joint choice is exact to within 0.1 %.
    assert t_ms(topology, more) <= small * 1.001 + 0.02
    links = tuple(
        link.model_copy(update={"rate_gbps": 2 * link.rate_gbps}) for link in topology.links
    )
    faster = Topology(name="faster", cities=topology.cities, links=links)
    if less >= 0.1:
        assert t_ms(faster, less) <= small * 1.001 + 0.02


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rates": "per_stream"}, 'unknown rates "per_stream"; did you mean "per-stream"?'),
        ({"memory_model": "keep"}, 'unknown memory model "keep"; valid: accumulate, hold'),
        ({"resend_ms": -1}, "resend_ms must be a number, 0 or more, not -1"),
        ({"resend_ms": float("nan")}, "resend_ms"),
        (
            {"memory_bytes": 1e6, "fifo_datagrams": 32, "scale": 100},
            "2 streams × 32 × 8290 B × 100 = 53.1 MB; use 0 for the FIFO alone",
        ),
        ({"trees": "hub", "multicast": False}, "hub trees need multicast"),
    ],
)
def test_demands_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    values: dict[str, object] = {"payload_bytes": 1e9, "memory_bytes": 0, **changes}
    with pytest.raises(InputError) as caught:
        make_plan(NINE, load_schedule("regional", NINE), **values)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_a_memory_of_the_fifo_is_accepted_and_reported() -> None:
    plan = make_plan(
        NINE,
        load_schedule("regional", NINE),
        payload_bytes=1e9,
        memory_bytes=0,
        scale=100,
        fifo_datagrams=32,
    )
    assert plan.period[0].fifo_bytes["nyc"] == 2 * 32 * 8290 * 100


def test_the_resend_buffer_is_named_in_the_reason() -> None:
    plan = make_plan(
        NINE,
        load_schedule("pairs", NINE),
        payload_bytes=PAYLOAD_BYTES,
        memory_bytes=0,
        resend_ms=10,
    )
    assert not plan.feasible
    assert "(125 MB, 125 MB of it to resend: 10 ms × 100 Gbit/s)" in plan.reason


def test_common_is_the_default() -> None:
    trees = direct_trees(_square([[0.0, 5.0], [9.0, 0.0]]), [(0, 1)])
    plain = time_round(
        NINE, trees, payload_bytes=1e9, memory_bytes=0, multicast=True, aggregation=True
    )
    assert plain.t_ms == pytest.approx(9 + 80)
