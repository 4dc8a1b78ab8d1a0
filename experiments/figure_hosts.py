"""The picture of a collective between hosts: what each received when, planned and measured."""

from pathlib import Path
from typing import Any

import pandas as pd

from experiments.figures import PLANNED, colour, new_figure, save, tidy
from experiments.sumanalysis import EDGE


def draw_transfers(plots_dir: Path, transfers: pd.DataFrame, summary: dict[str, Any]) -> Path:
    """Draw ``transfers.png``: progress of each host over time, and how late transfers end.

    Parameters
    ----------
    plots_dir
        Where to.
    transfers
        `experiments.hostanalysis.transfer_table`.
    summary
        The run's summary.
    """
    figure = new_figure(9.0, 7.0, _title(summary))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for number, (code, part) in enumerate(transfers.groupby("receiver", sort=False)):
        share = [100 * (i + 1) / len(part) for i in range(len(part))]
        tint = colour(number)
        top.step(sorted(part["planned_end_ms"]), share, color=PLANNED, lw=0.6, where="post")
        top.step(sorted(part["end_ms"]), share, color=tint, lw=1.4, where="post", label=str(code))
        late = part["end_ms"] - part["planned_end_ms"]
        bottom.plot(part["planned_end_ms"], late, ".", color=tint, ms=3)
    top.plot([], [], color=PLANNED, lw=0.6, label="schedule")
    top.legend(fontsize=8, frameon=False, ncols=2, loc="lower right")
    tidy(top, xlabel="", ylabel="transfers received, %", title="progress of each host")
    tidy(bottom, xlabel="ms", ylabel="ms", title="end of each transfer, after the schedule's")
    return save(figure, plots_dir / "transfers.png")


def draw_sum(plots_dir: Path, streams: pd.DataFrame, summary: dict[str, Any]) -> Path:
    """Draw ``transfers.png`` of a sum in the network: a bar for each stream, from begin to end.

    Parameters
    ----------
    plots_dir
        Where to.
    streams
        `experiments.sumanalysis.sum_streams`.
    summary
        The run's summary.
    """
    figure = new_figure(9.0, 1.4 + 0.26 * len(streams), _title(summary))
    axis = figure.subplots()
    rows: list[dict[Any, Any]] = streams.to_dict("records")
    for place, row in enumerate(rows):
        begin_ms, relayed = row["start_ms"], row["sender"].endswith(EDGE)
        tint = colour(int(relayed) if row["adds"] else 2)
        axis.barh(place, row["end_ms"] - begin_ms, left=begin_ms, color=tint)
        for planned_ms in (row["planned_start_ms"], row["planned_end_ms"]):
            axis.vlines(planned_ms, place - 0.45, place + 0.45, color=PLANNED, lw=1.0)
    names = [f"{row['sender']} → {row['receiver']}" for row in rows]
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.set_ylim(len(names) - 0.5, -0.5)
    tidy(axis, xlabel="ms; ticks: schedule", ylabel="")
    return save(figure, plots_dir / "transfers.png")


def _title(summary: dict[str, Any]) -> str:
    measured = summary["t_measured_ms"]
    outcome = "incomplete" if measured is None else f"{measured:.1f} ms"
    return (
        f"all-reduce, {summary['schedule']}: {outcome} measured, "
        f"{summary['t_planned_ms']:.1f} ms by the schedule"
    )
