"""The timeline: every stream at every island, planned and measured, against T."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from controller.plan import Plan
from experiments.figure_events import mark_events
from experiments.figures import FAINT, INK, PLANNED, colour, new_figure, panels, save, tidy

MAX_ROUNDS = 4
"""Rounds shown: more would repeat the period at the price of readability."""
_NAMED_STREAMS = 3
_SUM_COLOUR = "#444444"


def draw_timeline(
    plots_dir: Path, plan: Plan, streams: pd.DataFrame, summary: dict[str, Any]
) -> Path:
    """Draw one panel per round: a bar from first to last arrival for each stream.

    Parameters
    ----------
    plots_dir, plan
        Where to, and what was planned.
    streams
        `experiments.events.stream_table`.
    summary
        The run's summary: its measured T per round.
    """
    shown = min(plan.rounds, max(len(plan.period), 1), MAX_ROUNDS)
    most = max(len(plan.round(k).senders_to(c)) for k in range(shown) for c in plan.topology.codes)
    height = 1.0 + len(plan.topology.codes) * (0.34 + 0.085 * most)
    figure = new_figure(
        7.4 * min(shown, 2) + 0.6,
        height * -(-shown // 2) + 0.5,
        f"{plan.schedule}: every stream at every island",
    )
    for k, axis in enumerate(panels(figure, shown, columns=min(shown, 2))):
        _panel(axis, plan, streams[streams["round"] == k], k, summary["rounds"][k])
        begin_ms = k * plan.round_interval_ms
        mark_events(axis, summary, begin_ms, begin_ms + 1.5 * plan.round_interval_ms)
    figure.legend(
        handles=[
            Patch(
                facecolor=FAINT, label="stream at the edge, first to last byte (clique's colour)"
            ),
            Patch(facecolor=_SUM_COLOUR, label="sum at the island"),
            Line2D([], [], color=PLANNED, linewidth=0.8, marker="|", label="planned"),
        ],
        loc="outside lower center",
        ncols=3,
        fontsize=8,
        frameon=False,
    )
    return save(figure, plots_dir / "timeline.png")


def _panel(axis: Axes, plan: Plan, streams: pd.DataFrame, k: int, times: dict[str, Any]) -> None:
    this_round, codes = plan.round(k), plan.topology.codes
    for row, code in enumerate(codes):
        senders = this_round.senders_to(code)
        here = streams[streams["receiver"] == code]
        tracks = len(senders) + int(plan.aggregation and bool(senders))
        for track, sender in enumerate(senders):
            y = row - 0.4 + 0.8 * (track + 0.5) / tracks
            stream = this_round.stream_of(sender)
            if stream is None:
                continue
            begin = stream.offset_ms + stream.delays_ms[code]
            _planned(axis, begin, begin + stream.duration_ms, y, 0.8 / tracks)
            seen = here[(here["leg"] == "network") & (here["sender"] == sender)]
            _bar(axis, seen, y, 0.56 / tracks, colour(stream.clique), sender)
        if plan.aggregation and senders:
            y = row - 0.4 + 0.8 * (len(senders) + 0.5) / tracks
            _bar(axis, here[here["leg"] == "access"], y, 0.56 / tracks, _SUM_COLOUR, "")
    _limits(axis, times)
    axis.set_yticks(range(len(codes)), [code.upper() for code in codes])
    axis.set_ylim(len(codes) - 0.5, -0.5)
    cliques = "  ".join("-".join(c) for c in this_round.cliques if len(c) <= _NAMED_STREAMS + 1)
    tidy(axis, xlabel="ms after the start of the round", ylabel="", title=f"round {k}   {cliques}")
    axis.grid(visible=False, axis="y")


def _bar(axis: Axes, seen: pd.DataFrame, y: float, height: float, tint: str, name: str) -> None:
    """The time in which a stream arrived; nothing if it did not."""
    for first_ms, last_ms in zip(seen["first_ms"], seen["last_ms"], strict=True):
        axis.barh(y, last_ms - first_ms, left=first_ms, height=height, color=tint)
        if name:
            axis.text(
                first_ms,
                y,
                f" {name}",
                fontsize=max(4.8, min(6.0, 36.0 * height)),
                color="white",
                va="center",
                ha="left",
                fontweight="bold",
            )


def _planned(axis: Axes, begin_ms: float, end_ms: float, y: float, height: float) -> None:
    """Two ticks where the plan sees the first and the last byte."""
    low, high = y - height / 2, y + height / 2
    axis.vlines([begin_ms, end_ms], low, high, color=PLANNED, linewidth=0.8, zorder=3)


def _limits(axis: Axes, times: dict[str, Any]) -> None:
    """Planned T as a line, and the measured one in words."""
    planned_ms, measured_ms = times["planned_ms"], times["measured_ms"]
    axis.axvline(planned_ms, color=PLANNED, linewidth=1.1, linestyle="--")
    text = f"T planned {planned_ms:.1f} ms"
    if measured_ms is not None:
        text += f"\nmeasured {measured_ms:.1f} ms ({times['error_percent']:+.2f} %)"
    axis.annotate(
        text,
        xy=(planned_ms, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-5, 3),
        textcoords="offset points",
        fontsize=7.5,
        ha="right",
        va="bottom",
        color=INK,
    )
    axis.set_xlim(0, 1.04 * max(planned_ms, measured_ms or 0.0))
