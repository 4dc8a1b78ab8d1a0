"""Where every datagram of a run is: delivered, dropped at a place with a name, or unaccounted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.accounting import Legs, explained_losses
from experiments.rundata import RunData
from testbed.findings import Finding
from testbed.limits import Limits


@dataclass(frozen=True)
class Conservation:
    """Datagrams of a whole run; one to several receivers counts once for each.

    Attributes
    ----------
    sent, delivered
        Left a sender; were taken in by a receiver.
    dropped
        By place, each datagram once, however many receivers it would have had.
    unaccounted
        Not delivered, and not explained by what was dropped; ``None`` where an agent was
        killed, which has not told what it got.
    """

    sent: int
    delivered: int
    dropped: dict[str, int]
    unaccounted: int | None

    def entries(self) -> dict[str, Any]:
        """Entries of ``summary.json``."""
        by_kind = {"shaper": 0, "switch": 0, "socket": 0, "agent": 0}
        for place, count in self.dropped.items():
            by_kind[_kind(place)] += count
        return {
            "conservation": {
                "sent": self.sent,
                "delivered": self.delivered,
                **{f"{kind}_drops": count for kind, count in by_kind.items()},
                "dropped": self.dropped,
                "unaccounted": self.unaccounted,
            }
        }

    def findings(self, limits: Limits) -> list[Finding]:
        """Datagrams that vanished."""
        count = self.unaccounted or 0
        level = limits.level("unaccounted_packets", count)
        if level is None:
            return []
        text = (
            f"{count} datagrams unaccounted for: {self.sent} sent, {self.delivered} delivered, "
            f"{sum(self.dropped.values())} dropped"
        )
        return [Finding(level, text)]


def conserve(run: RunData, legs: Legs, drops: Mapping[str, int]) -> Conservation:
    """Account for the streams of a run.

    A multicast datagram that is dropped on its way misses at every receiver behind that
    place, so a drop explains as many losses as the largest tree has receivers there.

    Parameters
    ----------
    run, legs
        The run, and what was sent and received on both legs of its way.
    drops
        Datagrams dropped, by place, as `experiments.counters.drop_places` names them.
    """
    links = {f"shaper {q.interface}": q.link for q in run.network.qdiscs}
    on_trees = {links[place]: n for place, n in drops.items() if links.get(place)}
    explained = explained_losses(run.plan, on_trees)
    copies = len(run.plan.topology.codes) - 1 if run.plan.multicast else 1
    for place, count in drops.items():
        link = links.get(place, "")
        if link.endswith("→island"):
            explained += count
        elif not link:
            explained += count * (copies if _kind(place) == "switch" else 1)
    return Conservation(
        sent=legs.network_sent + legs.access_sent,
        delivered=legs.network_received + legs.access_received,
        dropped=dict(drops),
        unaccounted=None if run.faults else max(0, legs.lost - explained),
    )


def _kind(place: str) -> str:
    """Whether a shaper, a switch, a full socket or an agent that refused it dropped a datagram."""
    first = place.partition(" ")[0]
    if first in ("shaper", "switch"):
        return first
    return "socket" if place.endswith((": socket full", ": no such port")) else "agent"
