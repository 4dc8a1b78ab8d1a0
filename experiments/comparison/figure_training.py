"""Figure of the training loops: step time, throughput and idle share against compute time."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from experiments.comparison.training_rows import TrainingRow
from experiments.figures import FAINT, colour, new_figure, save, tidy

_DECADES_AROUND = 0.8
_POINTS = 200
_STYLES = {"synchronous": "-", "delayed": "--", "local": ":"}

Times = npt.NDArray[np.float64]


def step_times(row: TrainingRow, compute_ms: Times) -> Times:
    """Step time of a loop at other compute times, in ms, by its T as measured.

    C + T synchronous, max(C, time between rounds) delayed, C local.
    """
    if row.loop == "local" or row.t_ms is None:
        return compute_ms
    if row.loop == "delayed":
        return np.maximum(compute_ms, row.spacing_ms)
    return compute_ms + (row.t_ms if row.step_ms is None else row.step_ms - row.compute_ms)


def draw_training(
    folder: Path, rows: Sequence[TrainingRow], swept: Sequence[TrainingRow], title: str
) -> Path:
    """Draw ``training.png``: lines as computed, dots as measured; the baseline comes first."""
    figure = new_figure(12.0, 5.0, title)
    steps, gains, idle = figure.subplots(1, 3)
    baseline = rows[0]
    around = 10.0**_DECADES_AROUND
    compute_ms = np.geomspace(baseline.compute_ms / around, baseline.compute_ms * around, _POINTS)
    shown = [row for row in rows if row.t_ms is not None and row.step_ms is not None]
    numbers = {name: index for index, name in enumerate(dict.fromkeys(row.name for row in rows))}
    once: set[str] = set()
    for row in shown:
        step_ms = step_times(row, compute_ms)
        # All local loops are one line.
        tint = FAINT if row.loop == "local" else colour(numbers[row.name])
        label = "any, local" if row.loop == "local" else f"{row.name}, {row.loop}"
        style = {"color": tint, "linestyle": _STYLES[row.loop], "lw": 1.6}
        steps.plot(compute_ms, step_ms, label="" if label in once else label, **style)
        gains.plot(compute_ms, step_times(baseline, compute_ms) / step_ms, **style)
        idle.plot(compute_ms, 100 * (1 - compute_ms / step_ms), **style)
        once.add(label)
    _dots(steps, [*shown, *swept], numbers, lambda row: row.step_ms)
    _dots(gains, shown, numbers, lambda row: _gain(row, baseline))
    _dots(idle, [*shown, *swept], numbers, lambda row: _percent(row.idle_share))
    for axis, name in ((steps, "step in ms"), (gains, "throughput, × ring"), (idle, "idle in %")):
        axis.set_xscale("log")
        tidy(axis, xlabel="time to compute a step, in ms", ylabel=name)
        axis.axvline(baseline.compute_ms, color=FAINT, lw=0.8, zorder=0)
    steps.set_yscale("log")
    gains.set_yscale("log")
    handles, labels = steps.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return save(figure, folder / "training.png")


def _dots(
    axis: Axes,
    rows: Sequence[TrainingRow],
    numbers: dict[str, int],
    value_of: Callable[[TrainingRow], float | None],
) -> None:
    """Measured values, each at its compute time."""
    for row in rows:
        value = value_of(row)
        if value is not None:
            axis.plot(row.compute_ms, value, "o", ms=5, color=colour(numbers[row.name]))


def _gain(row: TrainingRow, baseline: TrainingRow) -> float | None:
    if row.step_ms is None or baseline.step_ms is None:
        return None
    return baseline.step_ms / row.step_ms


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
