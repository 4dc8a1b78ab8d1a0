"""The map: cities, links, and the trees of every round of the period."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from controller.plan import Plan, RoundPlan
from experiments.coast import COASTS
from experiments.figures import FAINT, INK, colour, new_figure, panels, save
from testbed.topology import Topology

Point = tuple[float, float]


@dataclass(frozen=True)
class View:
    """A part of the map: longitudes, projected latitudes, and degrees between two lanes."""

    west: float
    east: float
    south: float
    north: float
    lane: float
    magnified: float = 1.0
    """How much larger than in a full panel text looks here."""

    @property
    def unit(self) -> float:
        """Degrees that look like one degree of the whole map."""
        return self.magnified * (self.east - self.west) / 310.0

    def holds(self, point: Point) -> bool:
        """Whether a point lies inside, not too close to the border."""
        x, y = point
        margin = 3.0 * self.unit / self.magnified
        inside_x = self.west + margin < x < self.east - margin
        return inside_x and self.south + margin < y < self.north - margin


_LABEL_PLACES = ((0, 5), (0, -5), (8, 2), (-8, 2), (8, -3), (-8, -3), (10, 6), (-10, 6), (10, -7))
"""Where a label may stand, in degrees from its city, in order of preference."""
_CLUSTER_DEGREES = 12.0
_INSET = (0.24, 0.44)
_INSET_CORNERS = tuple((x / 100, y) for y in (0.03, 0.53) for x in range(24, 75, 5))


def project(lon: float, lat: float) -> Point:
    """Mercator's projection, in degrees at the equator."""
    return lon, math.degrees(math.log(math.tan(math.pi / 4 + math.radians(lat) / 2)))


def draw_map(plots_dir: Path, plan: Plan) -> Path:
    """Draw one panel per round: its cliques by colour, their trees on the links."""
    count = len(plan.period)
    columns = 1 if count <= 3 else 2
    rows = -(-count // columns)
    title = f"{plan.schedule} on {plan.topology.name}: trees, and the streams that share a link"
    figure = new_figure(9.6 * columns, 3.55 * rows + 0.4, title)
    for axis, (k, this_round) in zip(
        panels(figure, count, columns=columns), enumerate(plan.period), strict=True
    ):
        _panel(axis, plan, this_round)
        cliques = len(this_round.cliques)
        axis.set_title(
            f"round {k}: {cliques} clique{'s' if cliques != 1 else ''}, "
            f"T = {this_round.t_ms:.1f} ms",
            fontsize=10,
            loc="left",
        )
    return save(figure, plots_dir / "map.png")


def lanes(this_round: RoundPlan) -> dict[int, list[tuple[int, int]]]:
    """Per directed edge, the (clique, stream copies) that it carries, by clique."""
    copies: Counter[tuple[int, int]] = Counter()
    for stream in this_round.streams:
        # Without multicast there is no tree: each receiver's path carries its own copy.
        edges = stream.edges or tuple(itertools.chain(*stream.paths.values()))
        copies.update((edge, stream.clique) for edge in edges)
    found: dict[int, list[tuple[int, int]]] = {}
    for (edge, clique), count in sorted(copies.items()):
        found.setdefault(edge, []).append((clique, count))
    return found


def _panel(axis: Axes, plan: Plan, this_round: RoundPlan) -> None:
    whole = View(-140.0, 170.0, -17.0, 84.0, lane=1.5)
    close = _close_up(plan.topology)
    _draw(axis, plan, this_round, whole, close)
    if close is not None:
        spots = [project(city.lon, city.lat) for city in plan.topology.cities]
        inset = axis.inset_axes((*_free_corner(whole, spots), *_INSET))
        _draw(inset, plan, this_round, close)
        axis.indicate_inset_zoom(inset, edgecolor="#999999")
    handles = [
        Line2D([], [], color=colour(i), linewidth=2, label=" ".join(clique))
        for i, clique in enumerate(this_round.cliques)
        if len(clique) <= 4
    ]
    if handles:
        axis.legend(handles=handles, loc="lower left", fontsize=8, frameon=False)


def _draw(
    axis: Axes, plan: Plan, this_round: RoundPlan, view: View, unnamed: View | None = None
) -> None:
    """Draw what can be seen in one view; cities in ``unnamed`` carry no name."""
    topology = plan.topology
    for coast in COASTS:
        outline = [project(lon, lat) for lon, lat in coast]
        axis.fill(*zip(*outline, strict=True), color="#EDEDEA", linewidth=0, zorder=0)
    for link in topology.links:
        for start, end in _segments(topology, link.a, link.b):
            axis.plot(*zip(start, end, strict=True), color=FAINT, linewidth=0.8, zorder=1)
    for edge, carried in lanes(this_round).items():
        src, dst = topology.edges[edge].src, topology.edges[edge].dst
        for lane, (clique, count) in enumerate(carried):
            for start, end in _segments(topology, src, dst):
                _lane(axis, view, _aside(start, end, view.lane * (lane + 0.6)), clique, count)
    _cities(axis, topology, this_round, view, unnamed)
    axis.set_xlim(view.west, view.east)
    axis.set_ylim(view.south, view.north)
    axis.set_aspect("equal")
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_color("#CCCCCC")


def _lane(axis: Axes, view: View, line: tuple[Point, Point], clique: int, count: int) -> None:
    """One clique's streams on one direction of a link: a line, an arrow, their number."""
    (x1, y1), (x2, y2) = line
    tint, width = colour(clique), 0.9 + 0.35 * (count - 1)
    axis.plot([x1, x2], [y1, y2], color=tint, linewidth=width, zorder=2)
    # The visible part only: a link over the date line is drawn on both sides of the map.
    steps = [t / 40 for t in range(41)]
    inside = [t for t in steps if view.holds((x1 + (x2 - x1) * t, y1 + (y2 - y1) * t))]
    if len(inside) < 2:
        return
    at = inside[0] + (inside[-1] - inside[0]) * 0.6
    x, y = x1 + (x2 - x1) * at, y1 + (y2 - y1) * at
    arrow = {"arrowstyle": "-|>", "color": tint, "mutation_scale": 7 + width, "lw": 0}
    ahead = (x + (x2 - x1) * 0.001, y + (y2 - y1) * 0.001)
    axis.annotate("", xy=ahead, xytext=(x, y), arrowprops=arrow, zorder=3)
    if count > 1:
        (x, y), _ = _aside((x, y), (x2, y2), 2.4 * view.unit)
        axis.text(x, y, str(count), fontsize=7, color=tint, ha="center", va="center", zorder=4)


def _cities(
    axis: Axes, topology: Topology, this_round: RoundPlan, view: View, unnamed: View | None
) -> None:
    spots = {city.code: project(city.lon, city.lat) for city in topology.cities}
    taken = list(spots.values())
    for code, spot in spots.items():
        if not view.holds(spot):
            continue
        clique = next((i for i, c in enumerate(this_round.cliques) if code in c), None)
        tint = FAINT if clique is None else colour(clique)
        axis.plot(*spot, "o", markersize=7, color=tint, markeredgecolor="white", zorder=5)
        if unnamed is not None and unnamed.holds(spot):
            continue
        place = _label_place(spot, taken, view.unit)
        taken.append(place)
        box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "alpha": 0.7, "lw": 0}
        axis.text(*place, code.upper(), fontsize=8, color=INK, ha="center", va="center", bbox=box)


def _label_place(spot: Point, taken: Sequence[Point], unit: float) -> Point:
    """The first place beside a city that is free, or the freest one."""

    def room(place: Point) -> float:
        gaps = [
            math.hypot((place[0] - x) / (10 * unit), (place[1] - y) / (5 * unit))
            for x, y in taken
            if (x, y) != spot
        ]
        return min([1.0, *gaps])

    places = [(spot[0] + dx * unit, spot[1] + dy * unit) for dx, dy in _LABEL_PLACES]
    return max(places, key=room)


def _close_up(topology: Topology) -> View | None:
    """A view of the tightest group of cities, if they are too close for the whole map."""
    spots = [project(city.lon, city.lat) for city in topology.cities]
    groups = [[p for p in spots if math.dist(p, q) < _CLUSTER_DEGREES] for q in spots]
    groups = [group for group in groups if len(group) > 1]
    if not groups:
        return None
    group = min(groups, key=lambda g: max(math.dist(p, q) for p in g for q in g))
    x = (min(p[0] for p in group) + max(p[0] for p in group)) / 2
    y = (min(p[1] for p in group) + max(p[1] for p in group)) / 2
    half = 0.75 * max(2.0, max(math.dist(p, q) for p in group for q in group))
    # As wide as the inset is, seen at the scale of the whole map.
    width = half * (310.0 * _INSET[0]) / (101.0 * _INSET[1])
    return View(
        x - width, x + width, y - half, y + half, lane=0.075 * half, magnified=1 / _INSET[0]
    )


def _free_corner(whole: View, spots: Sequence[Point]) -> Point:
    """Where an inset hides the fewest cities and their surroundings."""

    def hidden(corner: Point) -> int:
        x = whole.west + corner[0] * (whole.east - whole.west)
        y = whole.south + corner[1] * (whole.north - whole.south)
        width = _INSET[0] * (whole.east - whole.west)
        height = _INSET[1] * (whole.north - whole.south)
        return sum(x - 6 < px < x + width + 6 and y - 8 < py < y + height + 8 for px, py in spots)

    return min(_INSET_CORNERS, key=hidden)


def _segments(topology: Topology, src: str, dst: str) -> list[tuple[Point, Point]]:
    """The straight line of a link; two where the short way crosses the date line."""
    (x1, y1), (x2, y2) = (
        project(city.lon, city.lat)
        for city in (topology.cities[topology.index(code)] for code in (src, dst))
    )
    turn = 360.0 if x1 - x2 > 180 else -360.0 if x2 - x1 > 180 else 0.0
    segments = [((x1, y1), (x2 + turn, y2))]
    if turn:
        segments.append(((x1 - turn, y1), (x2, y2)))
    return segments


def _aside(start: Point, end: Point, shift: float) -> tuple[Point, Point]:
    """The same way, shifted to its right."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy) or 1.0
    nx, ny = shift * dy / length, -shift * dx / length
    return (start[0] + nx, start[1] + ny), (end[0] + nx, end[1] + ny)
