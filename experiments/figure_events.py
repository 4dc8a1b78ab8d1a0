"""Events of a run as marks in its timeline."""

from typing import Any

from matplotlib.axes import Axes

_MARK = "#b03060"


def mark_events(axis: Axes, summary: dict[str, Any], begin_ms: float, end_ms: float) -> None:
    """Mark the events of a round: a line where one begins, a shade while it lasts."""
    low, high = axis.get_xlim()
    for fault in summary["faults"]:
        at_ms, until_ms = fault["happened_ms"], fault["ended_ms"]
        if at_ms is None or at_ms >= end_ms or (until_ms is not None and until_ms < begin_ms):
            continue
        until_ms = end_ms if until_ms is None else min(until_ms, end_ms)
        left, right = max(low, at_ms - begin_ms), min(high, until_ms - begin_ms)
        if right > left:
            axis.axvspan(left, right, color=_MARK, alpha=0.07, linewidth=0)
        if begin_ms <= at_ms and at_ms - begin_ms <= high:
            axis.axvline(at_ms - begin_ms, color=_MARK, linewidth=0.9)
            name = f" {fault['event']} {fault['target']}".rstrip()
            axis.annotate(
                name,
                xy=(at_ms - begin_ms, 0.01),
                xycoords=("data", "axes fraction"),
                rotation=90,
                fontsize=5.5,
                color=_MARK,
                ha="right",
                va="bottom",
            )
