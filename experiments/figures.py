"""The look that all figures share: colours, sizes, and how a figure is saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195")
"""Okabe and Ito's palette (2008), told apart by every kind of colour vision; yellow,
too faint on white, is replaced."""
INK = "#222222"
FAINT = "#B8B8B8"
PLANNED = "#111111"
DPI = 130


def new_figure(width_in: float, height_in: float, title: str) -> Figure:
    """An empty figure with a title; no global pyplot state is touched."""
    figure = Figure(figsize=(width_in, height_in), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=12, fontweight="bold", color=INK)
    return figure


def panels(figure: Figure, count: int, *, columns: int, **options: Any) -> list[Axes]:
    """A grid of ``count`` axes, row by row; the places left over stay empty."""
    rows = -(-count // columns)
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    axes = [axis for row in grid for axis in row]
    for spare in axes[count:]:
        spare.set_axis_off()
    return axes[:count]


def tidy(axis: Axes, *, xlabel: str, ylabel: str, title: str = "") -> None:
    """Label an axis and remove what carries no information."""
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    if title:
        axis.set_title(title, fontsize=10, loc="left", color=INK)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.grid(visible=True, color="#E6E6E6", linewidth=0.6)
    axis.set_axisbelow(True)


def colour(index: int) -> str:
    """Colour number ``index``; they come round after seven."""
    return COLOURS[index % len(COLOURS)]


def save(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG, without a date, so that equal data give equal files."""
    figure.savefig(path, metadata={"Software": None})
    return path


def save_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    """Write the data of a figure as CSV beside it."""
    lines = [",".join(header), *(",".join(str(cell) for cell in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path
