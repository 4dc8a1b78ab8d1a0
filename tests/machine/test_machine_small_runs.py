"""Small runs in one boot: element types are exact, no event ever gives a wrong sum."""

import pytest
from one_boot import run_in_one_boot

from agents.native.build import ensure_kernel_library
from experiments.analysis import analyse_run

pytestmark = pytest.mark.machine
STREAMS = """schedule: {folder}/all.yaml
trees: shortest-path
payload: 120MB
rounds: 3
"""
KILL = """events:
  - {at_ms: 4, event: island-restart, city: bbb, down_ms: 2}
  - {at_ms: 7.5, event: island-restart, city: aaa, down_ms: 2}
"""
TERM = KILL.replace("down_ms: 2", "down_ms: 2, signal: term")
AWAY = KILL.replace("down_ms: 2", "down_ms: 60")
EVENTS = {
    "cut": (
        "{at_ms: 24, event: link-down, link: aaa-bbb}, {at_ms: 37, event: link-up, link: bbb-aaa}"
    ),
    "ignored": "{at_ms: 24, event: link-down, link: aaa-bbb}",
    "cut-off": (
        "{at_ms: 24, event: link-down, link: aaa-bbb}, {at_ms: 24, event: link-down, link: aaa-ccc}"
    ),
    "changed": "{at_ms: 0, event: link-change, link: bbb-ccc, delay_ms: 9}",
    "burst": "{at_ms: 22, event: loss-burst, link: 'access:ccc', loss_percent: 30, for_ms: 6}",
    "straggling": "{at_ms: 24, event: straggle, city: bbb, for_ms: 4}",
    "crashed": "{at_ms: 24, event: island-crash, city: bbb}",
    "leaderless": "{at_ms: 5, event: controller-restart, down_ms: 1}",
    "reconnected": "{at_ms: 4, event: switch-reconnect, city: bbb, down_ms: 2}",
}
RUNS = {
    "f32": "dtype: f32\n",
    "f32-reference": "dtype: f32\nengine: reference\n",
    "f32-ordered": "dtype: f32\nordered: on\n",
    "exponent": "dtype: i32-exponent\n",
    "exponent-reference": "dtype: i32-exponent\nengine: reference\n",
    "killed-ring": "resend_ms: 30\n" + KILL,
    "killed-repair": "resend_ms: 3\nrepair: on\n" + KILL,
    "killed-bare": KILL,
    "ended": "resend_ms: 3\nrepair: on\n" + TERM,
    "away": AWAY,
    # A burst takes a long time against so short a round.
    **{name: f"tolerance_percent: 15\nevents: [{text}]\n" for name, text in EVENTS.items()},
}
RUNS["ignored"] += "on_link_down: ignore\non_fault: fail\n"
OF_THE_PROCESS = {"run_id", "wall_s", "network_up_wall_s", "trace_sha256", "reasons"}


@pytest.fixture(scope="module")
def summaries(tmp_path_factory) -> dict[str, dict]:
    folder = tmp_path_factory.mktemp("small")
    ensure_kernel_library()
    made = run_in_one_boot(folder, {name: STREAMS + text for name, text in RUNS.items()})
    return {name: analyse_run(run_dir) for name, run_dir in made.items()}


@pytest.mark.parametrize("name", ["f32", "f32-reference", "f32-ordered", "exponent"])
def test_sums_of_every_checked_type_are_exact(summaries, name: str) -> None:
    summary = summaries[name]
    # a burst takes a long time here, against so short a round
    assert [reason for reason in summary["reasons"] if "T measured" not in reason] == []
    assert summary["blocks_exact"] == summary["blocks_expected"] > 0
    assert summary["packets_lost"] == summary["partial_blocks"] == 0


@pytest.mark.parametrize("name", ["f32", "exponent"])
def test_both_engines_give_the_same_summary(summaries, name: str) -> None:
    native, reference = summaries[name], summaries[f"{name}-reference"]
    assert native.keys() == reference.keys()
    for key in native.keys() - OF_THE_PROCESS:
        alike(native[key], reference[key])


@pytest.mark.parametrize("name", [name for name, text in RUNS.items() if "island-restart" in text])
def test_a_restarted_island_never_gives_a_wrong_sum(summaries, name: str) -> None:
    summary = summaries[name]
    assert [fault["ended_ms"] is not None for fault in summary["faults"]] == [True, True]
    assert summary["blocks_wrong"] == 0
    assert summary["unrecorded"] == []
    found = sum(summary[f"blocks_{what}"] for what in ("exact", "stale", "missing"))
    assert found == summary["blocks_expected"]
    assert summary["verdict"] != "FAIL", summary["reasons"]


@pytest.mark.parametrize("name", ["killed-ring", "killed-repair", "ended"])
def test_with_recovery_nothing_is_missing_in_the_end(summaries, name: str) -> None:
    summary = summaries[name]
    assert summary["verdict"] == "PASS", summary["reasons"]
    assert summary["sums_exact"] is True


def test_without_recovery_what_it_had_received_is_missing(summaries) -> None:
    summary = summaries["killed-bare"]
    assert summary["verdict"] == "DEGRADED"
    assert summary["blocks_missing"] > 0


def outcomes(summary: dict) -> list[str]:
    return [told["outcome"] for told in summary["rounds"]]


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_happens_in_time_and_leaves_no_wrong_sum(summaries, name: str) -> None:
    summary = summaries[name]
    for fault in summary["faults"]:
        assert fault["happened_ms"] == pytest.approx(fault["at_ms"], abs=0.5)
    assert summary["blocks_wrong"] == 0
    assert not any("no event explains it" in reason for reason in summary["reasons"])
    assert (summary["verdict"] == "FAIL") == (name == "ignored"), summary["reasons"]


def test_trees_are_led_around_a_dead_link_and_back(summaries) -> None:
    down, up = summaries["cut"]["faults"]
    assert down["at_ms"] <= down["detected_ms"] <= down["rerouted_ms"] < down["at_ms"] + 2
    assert down["rerouted"] == [0, 1, 2], "round 0 is not closed yet"
    assert down["cut_off"] == []
    assert down["rules"]["stale_flows"] > 0
    assert down["swept_ms"] > down["rerouted_ms"]
    assert down["ended_ms"] == up["happened_ms"]
    assert up["rerouted"] == [2], "round 1 has begun and keeps its detour"
    assert summaries["cut"]["drops"].keys() & {"shaper aaa-3", "shaper bbb-3"}
    missing = [told["contributions_missing"] for told in summaries["cut"]["rounds"]]
    assert (missing[0], missing[2]) == (0, 0)
    worse = [told["contributions_missing"] for told in summaries["ignored"]["rounds"]]
    assert worse[1] > missing[1]
    assert outcomes(summaries["ignored"]) == ["whole", "partial", "partial"]


def test_who_is_cut_off_is_named_and_the_run_ends(summaries) -> None:
    summary = summaries["cut-off"]
    named = {tuple(ends) for fault in summary["faults"] for ends in fault["cut_off"]}
    assert {(k, a, b) for k in (1, 2) for a, b in (("aaa", "bbb"), ("bbb", "aaa"))} <= named
    assert outcomes(summary)[1:] == ["partial", "partial"]


def test_slower_links_and_islands_make_rounds_late_and_lose_nothing(summaries) -> None:
    assert outcomes(summaries["changed"]) == ["late"] * 3
    assert outcomes(summaries["straggling"]) == ["whole", "late", "whole"]
    for name in ("changed", "straggling"):
        assert summaries[name]["contributions_missing"] == summaries[name]["packets_lost"] == 0


def test_losses_of_a_while_stay_in_their_round_and_are_counted(summaries) -> None:
    summary = summaries["burst"]
    assert outcomes(summary) == ["whole", "partial", "whole"]
    lost = {loss["link"]: loss["lost"] for loss in summary["link_losses"]}
    assert lost.keys() == {"ccc→island"}
    assert summary["packets_lost"] == lost["ccc→island"] > 0


def test_the_others_go_on_without_a_crashed_island(summaries) -> None:
    summary = summaries["crashed"]
    assert summary["crashed"] == ["bbb"]
    assert outcomes(summary) == ["whole", "partial", "partial"]
    assert summary["rounds"][2]["islands"] == ["aaa", "bbb", "ccc"]


def test_rules_outlive_the_controller_and_the_session_of_a_switch(summaries) -> None:
    assert outcomes(summaries["reconnected"]) == ["whole"] * 3
    assert summaries["reconnected"]["faults"][0]["connected_ms"] < 20
    # Round 1 had its rules; Open vSwitch looks for a controller once a second.
    assert outcomes(summaries["leaderless"]) == ["whole", "whole", "lost"]


def alike(one: object, other: object) -> None:
    """Equal, but for what the time of the last nanoseconds makes of a figure."""
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys()
        for key in one:
            alike(one[key], other[key])
    elif isinstance(one, list) and isinstance(other, list):
        for a, b in zip(one, other, strict=True):
            alike(a, b)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-3, abs=0.05)
    else:
        assert one == other
