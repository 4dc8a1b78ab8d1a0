"""Figures of the table: objective by schedule and memory, and measured against planned."""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from experiments.comparison.rows import Row
from experiments.figures import INK, PLANNED, colour, new_figure, save, tidy
from experiments.units import format_bytes

_OPTIMISED = "optimised"


def draw_objectives(folder: Path, rows: Sequence[Row]) -> Path:
    """Draw ``objective.png``: a group of bars per schedule, a bar per memory.

    A bar is the measured objective, or the planned one, pale, where nothing was
    measured; the tick on it is the planned one. Ablations are left to the table.
    """
    shown = [row for row in rows if row.group != "ablation"]
    names = list(dict.fromkeys(_family(row) for row in shown))
    memories = sorted({row.memory_bytes for row in shown})
    figure = new_figure(8.6, 4.6, "T (A + ½) by schedule and memory of the edge device")
    axis = figure.subplots()
    width = 0.8 / len(memories)
    top = max([_height(row) for row in shown] + [1.0])
    for row in shown:
        index = memories.index(row.memory_bytes)
        x = names.index(_family(row)) - 0.4 + width * (index + 0.5)
        _bar(axis, row, x, width, colour(index), top)
    axis.set_xticks(range(len(names)), names)
    axis.set_xlim(-0.55, len(names) - 0.45)
    axis.set_ylim(0, 1.15 * top)
    tidy(axis, xlabel="", ylabel="T (A + ½) in ms")
    axis.grid(visible=False, axis="x")
    handles = [
        Line2D([], [], color=colour(i), linewidth=7, label=f"memory {format_bytes(m, 3)}")
        for i, m in enumerate(memories)
    ]
    handles.append(
        Line2D([], [], color=PLANNED, linestyle="", marker="_", markersize=12, label="planned")
    )
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return save(figure, folder / "objective.png")


def draw_agreement(folder: Path, rows: Sequence[Row]) -> Path:
    """Draw ``measured-planned.png``: every run's T, and how far it is from the plan."""
    shown = [row for row in rows if row.t_measured_ms is not None and row.feasible]
    figure = new_figure(9.4, 0.9 + 0.27 * max(len(shown), 6), "T on packets against the plan")
    times, errors = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    for y, row in enumerate(shown):
        tint = colour(("schedule", "ablation", "optimised").index(row.group))
        measured_ms, error = row.t_measured_ms or 0.0, row.t_error_percent or 0.0
        times.barh(y, measured_ms, height=0.6, color=tint)
        times.plot(row.t_planned_ms, y, "|", color=PLANNED, markersize=10, markeredgewidth=1.5)
        errors.barh(y, error, height=0.6, color=tint)
        errors.annotate(
            f"{error:+.2f} %",
            xy=(error, y),
            xytext=(4 if error >= 0 else -4, 0),
            textcoords="offset points",
            fontsize=7,
            va="center",
            ha="left" if error >= 0 else "right",
            color=INK,
        )
    times.set_yticks(range(len(shown)), [_label(row) for row in shown], fontsize=7.5)
    times.set_ylim(len(shown) - 0.4, -0.6)
    errors.axvline(0, color=INK, linewidth=0.8)
    errors.margins(x=0.35)
    tidy(times, xlabel="T in ms: bar measured, tick planned", ylabel="")
    tidy(errors, xlabel="difference in %", ylabel="")
    for axis in (times, errors):
        axis.grid(visible=False, axis="y")
    return save(figure, folder / "measured-planned.png")


def _bar(axis: Axes, row: Row, x: float, width: float, tint: str, top: float) -> None:
    height = _height(row)
    if not height:
        absent = "∞" if row.a_rms is None and row.feasible else "infeasible"
        axis.text(
            x, 0.01 * top, absent, rotation=0 if absent == "∞" else 90, fontsize=10, color=tint,
            ha="center", va="bottom",
        )  # fmt: skip
        return
    measured = row.objective_ms is not None
    axis.bar(x, height, width=0.92 * width, color=tint, alpha=1.0 if measured else 0.35)
    if row.objective_planned_ms is not None:
        axis.hlines(
            row.objective_planned_ms, x - 0.46 * width, x + 0.46 * width, color=PLANNED, lw=1.4
        )
    axis.text(x, height + 0.015 * top, f"{height:.0f}", fontsize=7, color=INK, ha="center")


def _height(row: Row) -> float:
    """Objective to draw; 0 for none."""
    value = row.objective_ms if row.objective_ms is not None else row.objective_planned_ms
    usable = row.feasible and value is not None and math.isfinite(value)
    return float(value) if usable and value is not None else 0.0


def _family(row: Row) -> str:
    return _OPTIMISED if row.group == "optimised" else row.schedule


def _label(row: Row) -> str:
    text = f"{_family(row)}, {format_bytes(row.memory_bytes, 3)}"
    if not row.multicast:
        text += ", copies"
    if not row.aggregation:
        text += ", host sum"
    return text
