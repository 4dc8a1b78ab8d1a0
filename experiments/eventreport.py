"""Events of a run, and what became of its rounds, in words."""

from collections.abc import Iterator
from typing import Any


def event_lines(summary: dict[str, Any]) -> list[str]:
    """One line per event and what was done about it, then one per round that was not whole."""
    if not summary["faults"]:
        return []
    rounds = [r for r in summary["rounds"] if r["outcome"] != "whole"]
    return [
        *(f"event    {_event(fault)}" for fault in summary["faults"]),
        *(f"round {r['round']:<2} {_outcome(r)}" for r in rounds),
    ]


def _event(fault: dict[str, Any]) -> str:
    what = f"{fault['event']} {fault['target']}".rstrip()
    if fault["happened_ms"] is None:
        return f"{what}: not within the run"
    return f"{what} at {fault['happened_ms']:.3f} ms{''.join(_after(fault))}"


def _after(fault: dict[str, Any]) -> Iterator[str]:
    """What followed."""
    if fault["ended_ms"] not in (None, fault["happened_ms"]):
        yield f", over at {fault['ended_ms']:.3f} ms"
    if fault.get("connected_ms") is not None:
        yield f", switches connected at {fault['connected_ms']:.3f} ms"
    if fault.get("detected_ms") is not None:
        yield f", seen at {fault['detected_ms']:.3f} ms"
    if fault.get("rerouted_ms") is not None:
        rounds = ", ".join(str(k) for k in fault["rerouted"])
        yield f", {f'trees of round {rounds}' if rounds else 'no trees'} led elsewhere"
        yield f" by {fault['rerouted_ms']:.3f} ms"
    if fault.get("cut_off"):
        yield f", {len(fault['cut_off'])} streams have no way left to a receiver"


def _outcome(told: dict[str, Any]) -> str:
    """What became of a round."""
    text = str(told["outcome"])
    if told["contributions_missing"]:
        missing, expected = told["contributions_missing"], told["contributions_expected"]
        text += f": {missing} of {expected} contributions missing"
    where = f" ({', '.join(told['islands'])})" if told["islands"] else ""
    where += "" if told["rules_in_time"] else ", its rules were late"
    why = f", after {'; '.join(told['events'])}" if told["events"] else ""
    return f"{text}{where}{why}"
