"""The plan over time: when every city sends, at which rate, and when its last byte arrives."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from controller.plan import Plan, Stream
from experiments.figures import FAINT, INK, PLANNED, colour, new_figure, panels, save, tidy


def draw_plan(plots_dir: Path, plan: Plan) -> Path:
    """Draw one panel per round of the period into ``rates.png``.

    The height of a bar is the stream's rate, its length the time that the
    sender takes; the line behind it ends where the last receiver has the last
    byte.
    """
    count = len(plan.period)
    columns = min(count, 2)
    height = 1.0 + 0.36 * len(plan.topology.codes)
    figure = new_figure(
        7.0 * columns + 0.6,
        height * -(-count // columns) + 0.7,
        f"{plan.schedule}: what every city sends, and when",
    )
    fastest = max((s.rate_gbps for r in plan.period for s in r.streams), default=1.0)
    for k, axis in enumerate(panels(figure, count, columns=columns)):
        _panel(axis, plan, k, fastest)
    figure.legend(
        handles=[
            Patch(facecolor=FAINT, label="sending; height is the rate (clique's colour)"),
            Line2D([], [], color=FAINT, linewidth=1.4, label="until the last receiver has it all"),
            Line2D([], [], color=PLANNED, linewidth=1.1, linestyle="--", label="T"),
        ],
        loc="outside lower center",
        ncols=3,
        fontsize=8,
        frameon=False,
    )
    return save(figure, plots_dir / "rates.png")


def _panel(axis: Axes, plan: Plan, k: int, fastest_gbps: float) -> None:
    planned, codes = plan.period[k], plan.topology.codes
    for row, code in enumerate(codes):
        stream = planned.stream_of(code)
        if stream is not None:
            _stream(axis, stream, row, fastest_gbps)
    axis.axvline(planned.t_ms, color=PLANNED, linewidth=1.1, linestyle="--")
    axis.annotate(
        f"T = {planned.t_ms:.1f} ms",
        xy=(planned.t_ms, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-5, 3),
        textcoords="offset points",
        fontsize=7.5,
        ha="right",
        va="bottom",
        color=INK,
    )
    axis.set_xlim(0, 1.04 * planned.t_ms)
    axis.set_yticks(range(len(codes)), [code.upper() for code in codes])
    axis.set_ylim(len(codes) - 0.5, -0.5)
    tidy(axis, xlabel="ms after the start of the round", ylabel="", title=f"round {k}")
    axis.grid(visible=False, axis="y")


def _stream(axis: Axes, stream: Stream, row: int, fastest_gbps: float) -> None:
    tint = colour(stream.clique)
    end_ms = stream.offset_ms + stream.duration_ms
    height = 0.8 * stream.rate_gbps / fastest_gbps
    bottom = row + 0.4
    last_ms = end_ms + max(stream.delays_ms.values(), default=0.0)
    axis.hlines(bottom, stream.offset_ms, last_ms, color=tint, linewidth=1.4, alpha=0.5)
    # Rows run downwards: a negative height stands on the row's lower edge.
    axis.barh(
        bottom - height / 2, stream.duration_ms, left=stream.offset_ms, height=height, color=tint
    )
    axis.text(
        stream.offset_ms + stream.duration_ms / 2,
        bottom - height / 2,
        f"{stream.rate_gbps:.3g} Gbit/s",
        fontsize=6.5,
        color="white",
        ha="center",
        va="center",
    )
