import json

import numpy as np
import pandas as pd
import pytest
from synthetic_run import Faults, make_run, nine_city_plan, triangle_plan

from agents.records import EVENT_DTYPE
from experiments.analysis import analyse_run
from experiments.events import read_trace
from experiments.results import read_json, write_json
from testbed.errors import InputError

NAMED_IN_THE_ISSUE = {
    "run_id",
    "schedule",
    "clock",
    "feasible",
    "t_planned_ms",
    "t_measured_ms",
    "a_rms",
    "objective_ms",
    "sums_exact",
    "packets_lost",
    "memory_high_water_bytes",
    "network_up_wall_s",
    "wall_s",
    "trace_sha256",
    "verdict",
}


def test_an_ideal_run_passes_and_its_figures_can_be_worked_out_by_hand(tmp_path):
    """20 ms of stream, 5 ms to the farthest city, 0.05 ms from aggregator to island."""
    run_dir = make_run(tmp_path, triangle_plan())
    summary = analyse_run(run_dir)
    assert set(summary) >= NAMED_IN_THE_ISSUE
    assert summary == read_json(run_dir / "summary.json")
    assert summary["verdict"] == "PASS"
    assert summary["reasons"] == []
    assert summary["t_planned_ms"] == pytest.approx(25.0)
    assert summary["t_measured_ms"] == pytest.approx(25.05, abs=1e-3)
    assert summary["t_error_percent"] == pytest.approx(0.2, abs=0.01)
    assert summary["a_rms"] == 1
    assert summary["objective_ms"] == pytest.approx(1.5 * 25.05, abs=1e-2)
    assert summary["sums_exact"]
    assert summary["packets_lost"] == 0
    assert summary["network_up_wall_s"] == 3.5
    # 2 rounds × 3 islands × 2 senders × 302 blocks of at most 8290 bytes (2.5 MB scaled)
    assert summary["contributions_expected"] == 2 * 3 * 2 * 302
    assert summary["packets_sent"] == 2 * 3 * 2 * 302 + 2 * 3 * 302
    assert summary["evictions"]["complete"] == 2 * 3 * 302
    for traffic in summary["islands"].values():
        assert traffic["egress_bytes"] == pytest.approx(2 * 250e6, rel=1e-5)
        assert traffic["ingress_bytes"] == pytest.approx(2 * 250e6, rel=1e-5)
    assert summary["busiest_link"]["streams_planned"] == 2
    assert read_json(run_dir / "manifest.json")["verdict"] == "PASS"


def test_the_tables_hold_every_stream_with_its_times(tmp_path):
    run_dir = make_run(tmp_path, triangle_plan())
    analyse_run(run_dir)
    streams = pd.read_parquet(run_dir / "events" / "streams.parquet")
    row = streams[
        (streams["round"] == 1)
        & (streams["leg"] == "network")
        & (streams["receiver"] == "ccc")
        & (streams["sender"] == "bbb")
    ].iloc[0]
    assert row["last_ms"] == pytest.approx(25.0, abs=1e-3)
    assert row["first_ms"] == pytest.approx(5 + 4 * 8290 / 125_000, abs=1e-3)
    assert row["datagrams"] == 302
    assert row["bytes"] == pytest.approx(250e6, rel=1e-5)
    assert len(streams) == 2 * (3 + 6 + 3)  # emitted, at the edge, sums
    bursts = pd.read_parquet(run_dir / "events" / "bursts.parquet")
    assert bursts["t_ns"].is_monotonic_increasing
    assert set(bursts["kind"]) == {"emit", "held", "aggregate_out", "aggregate_in"}
    links = pd.read_parquet(run_dir / "events" / "links.parquet")
    assert len(links) == 6
    assert set(links["link"]) >= {"aaa-bbb", "bbb-aaa"}
    rules = pd.read_parquet(run_dir / "events" / "rules.parquet")
    assert list(rules["confirmed_ms"]) == [0, 0.001]


def test_the_triangles_of_the_nine_cities_pass_with_and_without_memory(tmp_path):
    for memory_bytes in (32e9, 0.0):
        plan = nine_city_plan("triangles", rounds=2, memory_bytes=memory_bytes)
        summary = analyse_run(make_run(tmp_path, plan))
        assert summary["verdict"] == "PASS", summary["reasons"]
        assert [r["round"] for r in summary["rounds"]] == [0, 1]
        assert len(summary["memory_high_water_by_city"]) == 9


def test_without_multicast_and_aggregation_both_ways_carry_n_minus_1_streams(tmp_path):
    base = analyse_run(make_run(tmp_path, nine_city_plan("all-to-all", rounds=1)))
    plain = nine_city_plan("all-to-all", rounds=1, multicast=False, aggregation=False)
    summary = analyse_run(make_run(tmp_path, plain))
    assert summary["verdict"] == "PASS", summary["reasons"]
    assert summary["memory_high_water_bytes"] == 0
    for code, traffic in summary["islands"].items():
        for way in ("egress_bytes", "ingress_bytes"):
            assert traffic[way] == pytest.approx(8 * base["islands"][code][way])


def failed(tmp_path, faults, plan=None):
    summary = analyse_run(make_run(tmp_path, plan or triangle_plan(), faults))
    return summary, " / ".join(summary["reasons"])


def test_a_lost_datagram_fails_the_run_and_is_counted_once(tmp_path):
    summary, reasons = failed(tmp_path, Faults(lost={(0, "aaa", "bbb", 8)}))
    assert summary["verdict"] == "FAIL"
    assert summary["packets_lost"] == 4
    assert summary["contributions_missing"] == 4
    assert summary["partial_blocks"] == 4
    assert not summary["sums_exact"]
    assert "4 datagrams lost (place unknown)" in reasons


def test_a_loss_is_named_with_its_place(tmp_path):
    faults = Faults(lost={(0, "aaa", "bbb", 8)}, switch_drops={"bbb": 4})
    _, reasons = failed(tmp_path, faults)
    assert "4 datagrams lost (switch bbb 4)" in reasons


def test_a_sum_lost_on_the_access_link_is_seen(tmp_path):
    summary, _ = failed(tmp_path, Faults(lost_sums={(1, "ccc", 0)}))
    assert summary["verdict"] == "FAIL"
    assert summary["packets_lost"] == 4
    assert summary["contributions_missing"] == 8
    assert summary["partial_blocks"] == 0


def test_a_wrong_sum_fails_the_run(tmp_path):
    summary, reasons = failed(tmp_path, Faults(wrong_sums={(0, "bbb", 4)}))
    assert summary["verdict"] == "FAIL"
    assert not summary["sums_exact"]
    assert summary["packets_lost"] == 0
    assert "4 block sums are wrong" in reasons


def test_a_late_network_fails_the_run_with_the_difference(tmp_path):
    summary, reasons = failed(tmp_path, Faults(late_ms=0.5))
    assert summary["verdict"] == "FAIL"
    assert summary["t_error_percent"] == pytest.approx(2.2, abs=0.01)
    assert "T measured 25.55 ms, planned 25.00 ms (+2.20 %, allowed ±1 %)" in reasons


def test_the_tolerance_is_the_configs(tmp_path):
    run_dir = make_run(tmp_path, triangle_plan(), Faults(late_ms=0.5))
    manifest = read_json(run_dir / "manifest.json")
    manifest["config"]["tolerance_percent"] = 3
    write_json(run_dir / "manifest.json", manifest)
    assert analyse_run(run_dir)["verdict"] == "PASS"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"delay_ns": 3_100_000}, "delay is 3.1 ms instead of 3.0 ms"),
        ({"rate_bps": 900e6}, "rate is 900.0 Mbit/s instead of 1000.0 Mbit/s"),
        ({"limit": 4}, "limit is 4 packets instead of"),
        ({"kind": "noqueue"}, "it is noqueue, not netem"),
        ({"backlog": 9000}, "9000 bytes are still queued"),
        ({"sent_bytes": 9_000_000}, "link aaa-bbb carried 900MB, planned 500MB"),
    ],
)
def test_a_link_that_is_not_as_planned_fails_the_run(tmp_path, record, message):
    summary, reasons = failed(tmp_path, Faults(qdisc={"aaa-3": record}))
    assert summary["verdict"] == "FAIL"
    assert message in reasons


def test_drops_outside_the_streams_degrade_the_run(tmp_path):
    summary, reasons = failed(tmp_path, Faults(qdisc={"aaa-3": {"drops": 2}}))
    assert summary["verdict"] == "DEGRADED"
    assert "shaper aaa-3 2" in reasons


@pytest.mark.parametrize(("error_us", "verdict"), [(1.9, "PASS"), (2.1, "FAIL"), (-2.1, "FAIL")])
def test_round_trips_must_be_right_to_two_microseconds(tmp_path, error_us, verdict):
    summary, _ = failed(tmp_path, Faults(rtt_error_us=error_us))
    assert summary["verdict"] == verdict
    assert summary["rtt_max_error_us"] == pytest.approx(abs(error_us))


def test_every_datagram_is_delivered_dropped_somewhere_or_unaccounted_for(tmp_path):
    sound, _ = failed(tmp_path, Faults())
    kept = sound["conservation"]
    assert kept["sent"] == kept["delivered"] > 0
    assert (kept["dropped"], kept["unaccounted"]) == ({}, 0)
    lost = Faults(lost={(0, "aaa", "bbb", 8)})
    vanished, reasons = failed(tmp_path, lost)
    assert vanished["conservation"]["unaccounted"] == 4
    assert "4 datagrams unaccounted for" in reasons
    lost.switch_drops = {"bbb": 4}
    dropped, reasons = failed(tmp_path, lost)
    kept = dropped["conservation"]
    assert kept["sent"] - kept["delivered"] == kept["switch_drops"] == 4
    assert kept["unaccounted"] == 0
    assert "unaccounted" not in reasons


def test_a_forced_run_is_degraded_by_what_it_was_warned_of(tmp_path):
    plan = nine_city_plan("all-to-all", rounds=1, memory_bytes=0.0)
    assert not plan.feasible
    lost = Faults(lost={(0, "nyc", "lon", 0)}, switch_drops={"lon": 4})
    summary, _ = failed(tmp_path, lost, plan)
    assert summary["verdict"] == "DEGRADED"
    assert not summary["feasible"]
    assert "short" in summary["reason"]
    assert "the planner calls this infeasible: all-to-all round 0" in summary["reasons"][0]
    unharmed, _ = failed(tmp_path, Faults(), plan)
    assert unharmed["verdict"] == "DEGRADED"
    assert unharmed["sums_exact"]
    wrong, _ = failed(tmp_path, Faults(wrong_sums={(0, "bbb", 4)}))
    assert wrong["verdict"] == "FAIL"


def test_a_contribution_that_comes_twice_is_told_apart_from_one_that_is_missing(tmp_path):
    plan = triangle_plan(aggregation=False)
    summary, reasons = failed(tmp_path, Faults(twice={(0, "aaa", "bbb", 0)}), plan)
    assert summary["contributions_missing"] == 0
    assert "4 contributions came twice" in reasons


def test_the_trace_hash_follows_the_events_and_not_the_wall_clock(tmp_path):
    plan = triangle_plan()
    runs = [make_run(tmp_path, plan), make_run(tmp_path, plan)]
    network = read_json(runs[1] / "raw" / "network.json")
    write_json(runs[1] / "raw" / "network.json", {**network, "network_up": {"total_wall_s": 99}})
    first, second = (analyse_run(run_dir) for run_dir in runs)
    assert second["network_up_wall_s"] == 99
    assert first["trace_sha256"] == second["trace_sha256"]
    path = runs[1] / "raw" / "island-aaa.bin"
    events = np.frombuffer(path.read_bytes(), dtype=EVENT_DTYPE).copy()
    events["t_ns"][5] += 1
    path.write_bytes(events.tobytes())
    assert analyse_run(runs[1])["trace_sha256"] != first["trace_sha256"]


def test_events_of_equal_time_have_a_fixed_order(tmp_path):
    run_dir = make_run(tmp_path, triangle_plan(rounds=1))
    trace = read_trace(run_dir / "raw", triangle_plan().topology, aggregation=True)
    keys = list(zip(trace.events["t_ns"], trace.events["role"], trace.events["city"], strict=True))
    assert keys == sorted(keys)
    assert len(set(trace.events["t_ns"])) < len(keys)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("raw/island-bbb.bin", None, "cannot read"),
        ("raw/island-bbb.bin", b"123", "cut off"),
        ("raw/island-bbb.json", b'{"role": "island"}', 'lack "'),
        ("raw/island-bbb.state", None, "cannot read"),
        ("raw/island-bbb.state", b"123", "cut off"),
        ("raw/network.json", None, "cannot read"),
        ("raw/network.json", b'{"qdiscs": []}', "network_up"),
        ("raw/fidelity.json", None, "cannot read"),
        ("plan.json", b"{}", "plan.json"),
        ("runtime.json", None, "runtime.json"),
    ],
)
def test_a_damaged_run_folder_is_refused_with_the_file(tmp_path, name, damage, message):
    run_dir = make_run(tmp_path, triangle_plan())
    if damage is None:
        (run_dir / name).unlink()
    else:
        (run_dir / name).write_bytes(damage)
    with pytest.raises(InputError, match=message):
        analyse_run(run_dir)


def test_a_round_in_which_nothing_arrives_fails_and_is_still_summed_up(tmp_path):
    plan = triangle_plan(rounds=1)
    blocks = range(0, 302, 4)
    lost = {(0, a, b, k) for a in plan.topology.codes for b in plan.topology.codes for k in blocks}
    summary, reasons = failed(tmp_path, Faults(lost=lost), plan)
    assert summary["verdict"] == "FAIL"
    assert summary["t_measured_ms"] is None
    assert "nothing arrived" in reasons
    json.dumps(summary, allow_nan=False)
