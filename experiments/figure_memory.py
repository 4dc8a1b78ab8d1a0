"""Memory held at each city's aggregator over time, against the limit."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from controller.plan import Plan
from experiments.events import NS_PER_MS
from experiments.figures import INK, PLANNED, colour, new_figure, panels, save, tidy
from experiments.units import format_bytes

_COLUMNS = 3


def draw_memory(
    plots_dir: Path,
    plan: Plan,
    bursts: pd.DataFrame,
    block_bytes: float,
    summary: dict[str, Any],
) -> Path:
    """Draw one small panel per city, all on the same axes.

    Parameters
    ----------
    plots_dir, plan
        Where to, and what was planned.
    bursts
        `experiments.events.event_table`.
    block_bytes
        Memory of one block, unscaled.
    summary
        The run's summary: the high-water marks.
    """
    codes = plan.topology.codes
    limit = format_bytes(plan.memory_bytes, 4)
    if not plan.memory_bytes:
        limit = f"0 (FIFO {format_bytes(summary['memory_with_fifo_bytes'], 3)})"
    most = summary["memory_high_water_bytes"]
    figure = new_figure(
        10.5,
        1.75 * -(-len(codes) // _COLUMNS) + 0.8,
        f"{plan.schedule}: memory held at the edge; M = {limit}, "
        f"at most {format_bytes(most, 3)} used",
    )
    axes = panels(figure, len(codes), columns=_COLUMNS, sharex=True, sharey=True)
    held = bursts[bursts["kind"] == "held"]
    unit, name = (1e9, "GB") if most >= 1e9 else (1e6, "MB")
    for number, (axis, code) in enumerate(zip(axes, codes, strict=True)):
        here = held[held["city"] == code]
        time_s = here["t_ns"].to_numpy() / NS_PER_MS / 1000
        size = here["value"].to_numpy().astype(np.float64) * block_bytes / unit
        axis.fill_between(time_s, size, step="post", color=colour(0), alpha=0.35, linewidth=0)
        axis.plot(time_s, size, drawstyle="steps-post", color=colour(0), linewidth=0.8)
        _limits(axis, plan, code, unit, most)
        tidy(
            axis,
            xlabel="s" if number >= len(codes) - _COLUMNS else "",
            ylabel=f"{name} held" if number % _COLUMNS == 0 else "",
            title=f"{code.upper()}   {format_bytes(_mark(summary, code), 3)}",
        )
    axes[0].set_ylim(0, max(1.18 * most / unit, 1e-9))
    axes[0].set_xlim(0, plan.rounds * plan.round_interval_ms / 1000)
    return save(figure, plots_dir / "memory.png")


def _limits(axis: Axes, plan: Plan, code: str, unit: float, most: float) -> None:
    """The predicted mark of each round, and M where it is near enough to be seen."""
    for k in range(plan.rounds):
        begin_s = k * plan.round_interval_ms / 1000
        predicted = plan.round(k).held_bytes.get(code, 0.0) / unit
        axis.hlines(
            predicted,
            begin_s,
            begin_s + plan.round(k).t_ms / 1000,
            color=PLANNED,
            linewidth=0.9,
            linestyle="--",
        )
    if 0 < plan.memory_bytes <= 1.15 * most:
        axis.axhline(plan.memory_bytes / unit, color=colour(1), linewidth=1.2)
        axis.text(0, plan.memory_bytes / unit, " M", color=INK, fontsize=7, va="bottom")


def _mark(summary: dict[str, Any], code: str) -> float:
    return float(summary["memory_high_water_by_city"].get(code, 0.0))
