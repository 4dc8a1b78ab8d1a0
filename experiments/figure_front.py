"""The Pareto front of a search: T against A, over lines of equal objective."""

from pathlib import Path

import numpy as np

from experiments.figures import FAINT, INK, colour, new_figure, save, tidy
from experiments.optimizing import Optimised

_CONTOURS = 12


def draw_front(folder: Path, found: Optimised) -> Path:
    """Draw ``front.png``: a point per schedule, the best one named, contours of T (A + ½)."""
    times = [point.t_ms for point in found.front]
    lifetimes = [point.a_rms for point in found.front]
    best = min(found.front, key=lambda point: point.objective_ms)
    figure = new_figure(
        7.6, 5.2, f"{found.plan.topology.name}: round time against disagreement lifetime"
    )
    axis = figure.subplots()
    t_range = _widened(times)
    a_range = _widened(lifetimes)
    t_grid, a_grid = np.meshgrid(np.geomspace(*t_range, 120), np.geomspace(*a_range, 120))
    levels = best.objective_ms * np.geomspace(0.5, 8.0, _CONTOURS)
    objective = t_grid * (a_grid + 0.5)
    lines = axis.contour(t_grid, a_grid, objective, levels=levels, colors=FAINT, linewidths=0.7)
    axis.contour(
        t_grid, a_grid, objective, levels=[best.objective_ms], colors=colour(1), linewidths=1.0
    )
    axis.clabel(lines, fmt="%.0f ms", fontsize=7)
    axis.step(times, lifetimes, where="post", color=colour(0), linewidth=1.0, alpha=0.6)
    axis.plot(times, lifetimes, "o", color=colour(0), markersize=5)
    axis.plot(best.t_ms, best.a_rms, "o", color=colour(1), markersize=8, zorder=4)
    axis.annotate(
        f"T = {best.t_ms:.1f} ms, A = {best.a_rms:.3f}\nT (A + ½) = {best.objective_ms:.1f} ms",
        xy=(best.t_ms, best.a_rms),
        xytext=(10, 10),
        textcoords="offset points",
        fontsize=8.5,
        color=INK,
        bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "alpha": 0.85, "lw": 0},
    )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(*t_range)
    axis.set_ylim(*a_range)
    for ticks in (axis.xaxis, axis.yaxis):
        ticks.set_major_formatter("{x:g}")
        ticks.set_minor_formatter("{x:g}")
    axis.tick_params(which="both", labelsize=7.5)
    tidy(axis, xlabel="T in ms", ylabel="A (rms) in rounds", title="grey: equal T (A + ½)")
    return save(figure, folder / "front.png")


def _widened(values: list[float]) -> tuple[float, float]:
    """The range of positive values with some room on both sides."""
    low, high = min(values), max(values)
    room = max(1.15, (high / low) ** 0.12)
    return low / room, high * room
