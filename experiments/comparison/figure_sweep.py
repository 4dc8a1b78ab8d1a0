"""Figures of the planner's sweeps: T and objective against memory, and the map of winners."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from experiments.comparison.sweep import AFTER, BEFORE, Point, ranked, transition, tree_settings
from experiments.config import NAMED_SCHEDULES
from experiments.figures import FAINT, INK, colour, new_figure, panels, save, save_table, tidy
from experiments.units import format_bytes

_FIELDS = ("schedule", "trees", "payload_bytes", "memory_bytes", "t_ms", "objective_ms")


def draw_memory_line(folder: Path, points: Sequence[Point]) -> list[Path]:
    """Draw ``memory.png``: T above, objective below, a column per choice of trees."""
    sets = tree_settings(points)
    payload = format_bytes(points[0].payload_bytes, 3)
    figure = new_figure(
        5.6 * len(sets),
        7.0,
        f"T and T (A + ½) against memory, payload {payload}, planned\n"
        "lines end where a schedule is infeasible or three times slower",
    )
    axes = panels(figure, 2 * len(sets), columns=len(sets), sharex=True, sharey="row")
    for column, (title, mine) in enumerate(sets.items()):
        upper, lower = axes[column], axes[column + len(sets)]
        _lines(upper, mine, "t_ms")
        _lines(lower, mine, "objective_ms")
        _mark_transition(lower, mine)
        tidy(upper, xlabel="", ylabel="T in ms", title=f"trees: {title}")
        tidy(lower, xlabel="memory of each edge device", ylabel="T (A + ½) in ms")
        _memory_ticks(lower, [point.memory_bytes for point in mine])
    if axes[0].lines:
        axes[0].legend(fontsize=8, frameon=False)
    return [save(figure, folder / "memory.png"), _table(folder / "memory.csv", points)]


def draw_winners(folder: Path, points: Sequence[Point]) -> list[Path]:
    """Draw ``winners.png``: the schedule with the least objective, over payload and memory.

    A panel per choice of trees.
    """
    sets = tree_settings(points)
    figure = new_figure(5.6 * len(sets), 5.4, "The schedule with the least T (A + ½), planned")
    for axis, (title, mine) in zip(
        panels(figure, len(sets), columns=len(sets)), sets.items(), strict=True
    ):
        _winners(axis, mine)
        tidy(axis, xlabel="payload", ylabel="memory of each edge device", title=f"trees: {title}")
        axis.grid(visible=False)
    handles = [Patch(facecolor=_tint(name), label=name) for name in NAMED_SCHEDULES]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=4, fontsize=8, frameon=False,
        title="number: objective in ms, and by how much the second is worse", title_fontsize=8,
    )  # fmt: skip
    return [save(figure, folder / "winners.png"), _table(folder / "winners.csv", points)]


def _lines(axis: Axes, points: Sequence[Point], figure_of: str) -> None:
    memories = sorted({point.memory_bytes for point in points})
    for schedule in dict.fromkeys(point.schedule for point in points):
        seen = [
            (memories.index(p.memory_bytes), getattr(p, figure_of))
            for p in sorted(points, key=lambda p: p.memory_bytes)
            if p.schedule == schedule and getattr(p, figure_of) is not None
        ]
        if seen:
            xs, ys = zip(*seen, strict=True)
            axis.plot(xs, ys, "o-", color=_tint(schedule), markersize=3.5, label=schedule)
    axis.set_ylim(bottom=0)


def _mark_transition(axis: Axes, points: Sequence[Point]) -> None:
    memories = sorted({point.memory_bytes for point in points})
    between = transition(points, BEFORE, AFTER)
    if between is None:
        text = f"{AFTER} never overtakes {BEFORE}"
        first = {p.schedule: p.objective_ms for p in points if p.memory_bytes == memories[0]}
        if first.get(AFTER) is not None and (first[AFTER] or 0) < (first.get(BEFORE) or 0):
            text = f"{AFTER} is ahead of {BEFORE} throughout"
        x = 0.5 * (len(memories) - 1)
    else:
        low, high = (memories.index(memory) for memory in between)
        axis.axvspan(low, high, color=FAINT, alpha=0.35, linewidth=0)
        text = (
            f"{AFTER} overtakes {BEFORE}\nbetween {format_bytes(between[0], 3)} "
            f"and {format_bytes(between[1], 3)}"
        )
        x = (low + high) / 2
    axis.annotate(
        text, xy=(x, 0.04), xycoords=("data", "axes fraction"), fontsize=8, color=INK,
        ha="left" if x < len(memories) / 2 else "right",
    )  # fmt: skip


def _winners(axis: Axes, points: Sequence[Point]) -> None:
    payloads = sorted({point.payload_bytes for point in points})
    memories = sorted({point.memory_bytes for point in points})
    for (payload, memory), order in ranked(points).items():
        x, y = payloads.index(payload), memories.index(memory)
        tint = _tint(order[0].schedule) if order else FAINT
        axis.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=tint, edgecolor="white"))
        text = "none"
        if order:
            text = f"{order[0].objective_ms:.0f}"
        if len(order) > 1:
            lead = (order[1].objective_ms or 0.0) / (order[0].objective_ms or 1.0) - 1
            text += f"\n+{100 * lead:.0f} %"
        axis.text(x, y, text, fontsize=5.8, color="white", ha="center", va="center")
    axis.set_xticks(
        range(len(payloads)), [format_bytes(p, 3) for p in payloads], fontsize=7, rotation=45
    )
    axis.set_yticks(range(len(memories)), [format_bytes(m, 3) for m in memories], fontsize=7)
    axis.set_xlim(-0.5, len(payloads) - 0.5)
    axis.set_ylim(-0.5, len(memories) - 0.5)


def _memory_ticks(axis: Axes, memories_bytes: Sequence[int]) -> None:
    """Memory on an even axis of its own: no logarithm has room for 0."""
    memories = sorted(set(memories_bytes))
    step = max(1, len(memories) // 10)
    axis.set_xticks(
        range(0, len(memories), step),
        [format_bytes(memory, 3) for memory in memories[::step]],
        rotation=45,
        fontsize=7.5,
    )


def _tint(schedule: str) -> str:
    return colour(NAMED_SCHEDULES.index(schedule)) if schedule in NAMED_SCHEDULES else FAINT


def _table(path: Path, points: Sequence[Point]) -> Path:
    rows = [[_cell(getattr(point, name)) for name in _FIELDS] for point in points]
    return save_table(path, _FIELDS, rows)


def _cell(value: object) -> object:
    return "" if value is None else value
