"""Figure of the loss sweep: goodput and T against the loss rate."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from experiments.comparison.loss_rows import LossRow
from experiments.figures import colour, new_figure, save, tidy

_AT_ZERO_PERCENT = 0.003
"""Where no loss stands on the logarithmic axis."""


def draw_losses(folder: Path, rows: Sequence[LossRow], title: str) -> Path:
    """Draw ``loss.png``: a line per schedule, solid with recovery, broken without."""
    figure = new_figure(9.4, 4.4, title)
    goodput, times = figure.subplots(1, 2)
    names = list(dict.fromkeys(row.schedule for row in rows))
    for number, name in enumerate(names):
        for recovers in (True, False):
            line = [r for r in rows if r.schedule == name and bool(r.resend_ms) == recovers]
            label = f"{name}, {'with' if recovers else 'no'} recovery"
            _line(goodput, line, [r.goodput_gbps for r in line], number, label)
            _line(times, line, [r.t_measured_ms for r in line], number, label)
    tidy(goodput, xlabel="loss on the last hop in %", ylabel="goodput per island in Gbit/s")
    tidy(times, xlabel="loss on the last hop in %", ylabel="T in ms")
    shares = sorted({row.loss_percent for row in rows})
    for axis in (goodput, times):
        axis.set_xscale("log")
        axis.set_xticks([_place(share) for share in shares], [f"{share:g}" for share in shares])
        axis.minorticks_off()
        axis.set_ylim(bottom=0)
    handles, labels = goodput.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return save(figure, folder / "loss.png")


def _line(
    axis: Axes, rows: Sequence[LossRow], values: Sequence[float | None], number: int, label: str
) -> None:
    """One line; runs without a figure are left out."""
    points = [
        (_place(r.loss_percent), v) for r, v in zip(rows, values, strict=True) if v is not None
    ]
    recovers = bool(rows and rows[0].resend_ms)
    axis.plot(
        [x for x, _ in points],
        [y for _, y in points],
        color=colour(number),
        linestyle="-" if recovers else "--",
        marker="o" if recovers else "x",
        markersize=5,
        label=label,
    )


def _place(loss_percent: float) -> float:
    return max(loss_percent, _AT_ZERO_PERCENT)
