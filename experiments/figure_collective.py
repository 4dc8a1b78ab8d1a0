"""Pictures of a collective: its time-expanded network, and the use of links over time."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.collections import LineCollection

from controller.collectives.network import PS_PER_US, Floats, Ints
from controller.collectives.schedule import Schedule
from experiments.figures import FAINT, INK, colour, new_figure, save, tidy

_MOST_SENDS = 6000
_BINS = 200
_MOST_ROWS = 40


def draw_expanded(folder: Path, schedule: Schedule) -> Path:
    """Draw ``expanded.png``: a line per send, from its source at its start to its target.

    Sums and copies have colours of their own. Very long schedules are thinned out, which the
    title says.
    """
    network, routes = schedule.network, schedule.routes
    lines, adds = _send_lines(schedule)
    step = -(-len(lines) // _MOST_SENDS)
    kept = lines[::step]
    figure = new_figure(9.0, 5.2, _title(schedule))
    axis = figure.subplots()
    for value, name in ((True, "sum"), (False, "copy")):
        part = kept[adds[::step] == value]
        if len(part):
            tone = colour(0 if value else 1)
            alpha = float(np.clip(400 / len(kept), 0.08, 0.9))
            axis.add_collection(LineCollection(list(part), colors=tone, lw=0.8, alpha=alpha))
            axis.plot([], [], color=tone, label=name)
    nodes = np.unique(np.concatenate([routes.sources.values, routes.targets.values]))
    axis.set_xlim(0, schedule.time_us)
    axis.set_ylim(nodes.max() + 0.5, nodes.min() - 0.5)
    if len(nodes) <= _MOST_ROWS:
        axis.set_yticks(nodes, [network.nodes[node].name for node in nodes], fontsize=7)
    thin = f"every {step}th send" if step > 1 else "every send"
    tidy(axis, xlabel="µs", ylabel="node", title=f"time-expanded network, {thin}")
    axis.legend(loc="lower right", fontsize=8, frameon=False)
    return save(figure, folder / "expanded.png")


def draw_links(folder: Path, schedule: Schedule) -> Path:
    """Draw ``links.png``: how many links are busy over time, and each of the busiest ones."""
    link, begin, end, _ = schedule.occupied
    figure = new_figure(9.0, 6.0, _title(schedule))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    edges = np.linspace(0, max(schedule.time_ps, 1), _BINS + 1)
    share = busy_share(begin, end, edges) / schedule.network.links
    top.stairs(100 * share, edges / PS_PER_US, fill=True, color=colour(0), alpha=0.4)
    mean = 100 * (end - begin).sum() / (schedule.network.links * max(schedule.time_ps, 1))
    top.axhline(mean, color=INK, lw=0.8, ls="--")
    tidy(top, xlabel="", ylabel="links busy, %", title=f"mean {mean:.0f} %")
    top.set_ylim(0, 102)
    used = np.bincount(link, weights=end - begin, minlength=schedule.network.links)
    shown = np.argsort(-used, kind="stable")[:_MOST_ROWS]
    shown = shown[used[shown] > 0]
    row = np.full(schedule.network.links, -1)
    row[shown] = np.arange(len(shown))
    kept = row[link] >= 0
    spans = zip(row[link][kept], begin[kept] / PS_PER_US, end[kept] / PS_PER_US, strict=True)
    bars = [[(a, place), (b, place)] for place, a, b in spans]
    bottom.hlines(range(len(shown)), 0, schedule.time_us, color=FAINT, lw=0.4)
    bottom.add_collection(LineCollection(bars, colors=colour(0), lw=5, capstyle="butt"))
    names = [schedule.network.link_name(int(number)) for number in shown]
    bottom.set_yticks(range(len(shown)), names, fontsize=6)
    bottom.set_ylim(len(shown) - 0.5, -0.5)
    bottom.set_xlim(0, schedule.time_us)
    tidy(bottom, xlabel="µs", ylabel="", title=f"the {len(shown)} busiest links")
    return save(figure, folder / "links.png")


def busy_share(begin: Ints, end: Ints, edges: Floats) -> Floats:
    """How many of the intervals hold on average in each bin, shape (bins,)."""
    # Time covered up to each edge: every interval adds a ramp from its begin to its end.
    up = np.sort(begin)
    down = np.sort(end)
    covered = _ramps(up, edges) - _ramps(down, edges)
    share: Floats = np.diff(covered) / np.diff(edges)
    return share


def _ramps(starts: Ints, edges: Floats) -> Floats:
    """Σ max(edge − start, 0) at each edge; starts ascending."""
    before = np.searchsorted(starts, edges)
    total = np.concatenate([[0.0], np.cumsum(starts, dtype=np.float64)])
    ramps: Floats = before * edges - total[before]
    return ramps


def _send_lines(schedule: Schedule) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """A line per source and target of each send: shape (lines, 2 ends, time and node)."""
    routes = schedule.routes
    rows, adds = [], []
    for send in range(schedule.sends):
        route = int(schedule.route[send])
        start_us = schedule.start_ps[send] / PS_PER_US
        end_us = schedule.arrival_ps[send] / PS_PER_US
        for source in routes.sources.row(route).tolist():
            for target in routes.targets.row(route).tolist():
                rows.append(((start_us, source), (end_us, target)))
                adds.append(bool(schedule.adds[send]))
    return np.array(rows).reshape(-1, 2, 2), np.array(adds, dtype=bool)


def _title(schedule: Schedule) -> str:
    task = schedule.task
    return (
        f"{task.collective} on {schedule.network.name}, {schedule.algorithm}: "
        f"{schedule.time_us:.6g} µs"
    )
