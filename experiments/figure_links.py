"""Load of every link, planned and measured; and the survival curve of the schedule."""

from pathlib import Path
from typing import Any

from matplotlib.ticker import MaxNLocator

from controller.plan import Plan
from experiments.figures import INK, PLANNED, colour, new_figure, save, save_table, tidy

_LINK_FIELDS = (
    "link",
    "streams_planned",
    "bytes_planned",
    "bytes_measured",
    "utilisation",
    "drops",
)
_GONE = 0.005
"""Error at which a survival curve may end."""
_MAX_ROUNDS_SHOWN = 24
_TAIL_SHOWN = 1e-3
_PHASES_DIFFER = 1e-6
"""Difference from which on the curve depends visibly on the round it starts with."""


def draw_links(plots_dir: Path, plan: Plan, summary: dict[str, Any]) -> list[Path]:
    """Draw the bytes on every directed link, the busiest one first."""
    links = sorted(summary["links"], key=lambda link: (-link["bytes_planned"], link["link"]))
    rows = range(len(links))
    figure = new_figure(
        8.4,
        1.2 + 0.22 * len(links),
        f"{plan.schedule}: load of every link over {plan.rounds} rounds",
    )
    axis = figure.subplots()
    measured = [link["bytes_measured"] / 1e9 for link in links]
    planned = [link["bytes_planned"] / 1e9 for link in links]
    busiest = summary["busiest_link"]
    tints = [colour(int(link["link"] == busiest["link"])) for link in links]
    axis.barh(rows, measured, height=0.62, color=tints, label="measured")
    axis.scatter(
        planned, rows, marker="|", s=90, color=PLANNED, linewidth=1.6, label="planned", zorder=3
    )
    for row, link in zip(rows, links, strict=True):
        text = f"{100 * link['utilisation']:.0f} %   {link['streams_planned']} streams"
        if link["drops"]:
            text += f"   {link['drops']} dropped"
        axis.annotate(
            text,
            xy=(max(measured[row], planned[row]), row),
            xytext=(7, 0),
            textcoords="offset points",
            fontsize=7,
            va="center",
            color=INK,
        )
    axis.set_yticks(rows, [link["link"] for link in links], fontsize=8)
    axis.set_ylim(len(links) - 0.4, -0.6)
    axis.set_xlim(0, 1.3 * max([*measured, *planned, 1e-9]))
    title = (
        f"busiest: {busiest['link']}, {100 * busiest['utilisation']:.0f} % of what it can carry "
        "in the planned time"
    )
    tidy(axis, xlabel="GB sent", ylabel="", title=title)
    axis.grid(visible=False, axis="y")
    axis.legend(loc="lower right", fontsize=8, frameon=False)
    table = [[link[field] for field in _LINK_FIELDS] for link in links]
    return [
        save(figure, plots_dir / "links.png"),
        save_table(plots_dir / "links.csv", _LINK_FIELDS, table),
    ]


def draw_survival(plots_dir: Path, plan: Plan, summary: dict[str, Any]) -> list[Path]:
    """Draw S(k), planned and measured: the share of a disagreement left after k rounds."""
    measured = summary["survival_measured"]
    curve = list(plan.prediction.survival)
    curve += [0.0] * (len(measured) - len(curve))
    end = next((k for k, s in enumerate(curve) if s < _GONE), len(curve) - 1)
    shown = min(max(end, len(measured) - 1), _MAX_ROUNDS_SHOWN) + 1
    curve, measured = curve[:shown], measured[:shown]
    figure = new_figure(6.4, 3.6, f"{plan.schedule}: how long a disagreement survives")
    axis = figure.subplots()
    rounds = range(shown)
    axis.bar(rounds, curve, width=1.0, align="edge", color=colour(0), alpha=0.25, linewidth=0)
    axis.plot(rounds, curve, color=colour(0), linewidth=1.4, label="planned")
    own = summary["survival_planned"][:shown]
    if max(abs(a - b) for a, b in zip(own, curve, strict=False)) > _PHASES_DIFFER:
        axis.plot(own, "--", color=PLANNED, linewidth=0.9, label="planned, from this first round")
    axis.plot(measured, "o", color=colour(1), markersize=5, label="measured", clip_on=False)
    axis.set_ylim(0, 1.08)
    axis.set_xlim(0, max(shown - 0.5, 2))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(fontsize=8, frameon=False)
    tidy(
        axis,
        xlabel="rounds k",
        ylabel="S(k), RMS disagreement left",
        title=_survival_title(plan, summary),
    )
    rows = [[k, s, measured[k] if k < len(measured) else ""] for k, s in enumerate(curve)]
    return [
        save(figure, plots_dir / "survival.png"),
        save_table(plots_dir / "survival.csv", ("k", "planned", "measured"), rows),
    ]


def _survival_title(plan: Plan, summary: dict[str, Any]) -> str:
    lifetime, measured = plan.prediction.a_rms, summary["a_rms_measured"]
    if lifetime is None or measured is None:
        return "never dies out: A is infinite"
    title = f"A = Σ S(k) = {measured:.3f} (planned {lifetime:.3f}"
    seen = measured - summary["a_rms_tail"]
    title += f", {seen:.3f} seen)" if measured - seen > _TAIL_SHOWN else ")"
    if summary["objective_ms"] is not None:
        title += f";  measured T (A + ½) = {summary['objective_ms']:.0f} ms"
    return title
