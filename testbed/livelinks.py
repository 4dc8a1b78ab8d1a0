"""Links of a running network that change while packets flow: impaired, reshaped, cut, mended.

A cut link loses its operational state at both ends, so that its switches see their
ports go down, and its shapers drop, and count, whatever is sent into it. What had
entered it before is beyond the cut and still arrives.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.errors import CliquenetError
from testbed.impairment import NONE, Impairment, threshold
from testbed.netlink import RouteSocket
from testbed.netrequests import set_operational
from testbed.shaping import Shape, ShapedInterface, install, read_queues

_LOSE_ALL = Impairment(loss=threshold(100.0))


@dataclass(frozen=True)
class _State:
    """What a direction is asked for at present."""

    shape: Shape
    impairment: Impairment = NONE
    fault: Impairment | None = None
    """In place of its impairment, for a while."""
    cut: bool = False

    @property
    def faulty(self) -> bool:
        return self.cut or self.fault is not None

    @property
    def wanted(self) -> Shape:
        impairment = self.impairment if self.fault is None else self.fault
        return replace(self.shape, impairment=_LOSE_ALL if self.cut else impairment)


@dataclass
class _Direction:
    built: ShapedInterface
    state: _State
    lost: int = 0
    """Datagrams that were dropped during faults that are over."""
    drops_before: int = 0
    """The shaper's drops when the present fault began."""


class LiveLinks:
    """The shaped directions of a network, by names such as ``nyc→chi``.

    Every change is read back from the kernel. A direction that is not there, or a
    shaper that is not as asked, raises `CliquenetError`.

    Parameters
    ----------
    shaped
        All directions, as they were built.
    """

    def __init__(self, shaped: Sequence[ShapedInterface]) -> None:
        self._directions = {m.link: _Direction(m, _State(m.shape)) for m in shaped}

    def shape(self, name: str) -> Shape:
        """Rate and delay of a direction at present."""
        return self._find(name).state.shape

    def impair(self, impairments: Mapping[str, Impairment]) -> None:
        """Impair directions for good, which is until `mend`."""
        states = {name: self._find(name).state for name in impairments}
        self._change({n: replace(s, impairment=impairments[n]) for n, s in states.items()})

    def reshape(self, shapes: Mapping[str, Shape]) -> None:
        """Give directions another rate or delay; what is on its way keeps its order."""
        states = {name: self._find(name).state for name in shapes}
        self._change({n: replace(s, shape=shapes[n]) for n, s in states.items()})

    def disturb(self, names: Iterable[str], fault: Impairment | None) -> None:
        """Begin a fault that takes the place of directions' impairments, or end it."""
        self._change({n: replace(self._find(n).state, fault=fault) for n in names})

    def cut(self, names: Sequence[str]) -> None:
        """Cut links between switches, named by both their directions."""
        self._change({n: replace(self._find(n).state, cut=True) for n in names})
        self._operational(names, up=False)

    def join(self, names: Sequence[str]) -> None:
        """Bring links up again that were cut."""
        self._change({n: replace(self._find(n).state, cut=False) for n in names})
        self._operational(names, up=True)

    def is_cut(self, name: str) -> bool:
        """Whether a direction is cut."""
        return self._find(name).state.cut

    def lost(self) -> dict[str, int]:
        """Datagrams that were dropped during faults, by direction; only where there were any."""
        faulty = [name for name, d in self._directions.items() if d.state.faulty]
        drops = self._drops(faulty)
        found = {name: d.lost for name, d in self._directions.items()}
        found |= {n: found[n] + drops[n] - self._find(n).drops_before for n in faulty}
        return {name: count for name, count in found.items() if count}

    def mend(self) -> None:
        """End everything: directions are again as they were built."""
        cut = [name for name, d in self._directions.items() if d.state.cut]
        sound = {name: _State(d.built.shape) for name, d in self._directions.items()}
        self._change({n: s for n, s in sound.items() if s != self._find(n).state})
        self._operational(cut, up=True)

    def _change(self, states: Mapping[str, _State]) -> None:
        """Give directions new states, and count what is dropped while they are faulty."""
        turned = [n for n, s in states.items() if s.faulty != self._find(n).state.faulty]
        for name, drops in self._drops(turned).items():
            direction = self._find(name)
            if states[name].faulty:
                direction.drops_before = drops
            else:
                direction.lost += drops - direction.drops_before
        for name, state in states.items():
            self._find(name).state = state
        members = [self._find(name) for name in states]
        install(replace(d.built, shape=d.state.wanted) for d in members)

    def _drops(self, names: Iterable[str]) -> dict[str, int]:
        members = [self._find(name).built for name in names]
        return {m.link: 0 if state is None else state.drops for m, state in read_queues(members)}

    def _operational(self, names: Iterable[str], *, up: bool) -> None:
        members = [self._find(name).built for name in names]
        if any(member.namespace is not None for member in members):
            raise CliquenetError("only links between switches can be cut")
        if members:
            with RouteSocket() as route:
                route.apply([set_operational(m.interface, m.index, up=up) for m in members])

    def _find(self, name: str) -> _Direction:
        if name not in self._directions:
            raise CliquenetError(f"no link {name} in the network")
        return self._directions[name]
