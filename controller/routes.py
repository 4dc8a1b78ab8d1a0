"""Which trees the live rounds take, and which ways single packets: around links that are down."""

from collections.abc import Collection

from controller.detours import Detours, cut_off
from controller.plan import Plan, RoundPlan
from controller.rules import RuleSet, base_rules, stream_rules


class Routes:
    """The rules of a plan while links go down and come up.

    Parameters
    ----------
    plan
        The plan, of a network without faults.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._detours = Detours(plan.topology, ())
        self._taken: dict[int, RoundPlan] = {}

    def base(self) -> RuleSet:
        """The rules that every switch always holds."""
        return base_rules(self._detours.base(self._plan))

    def enter(self, round_index: int) -> RuleSet:
        """The rules of a round that is to be installed now."""
        self._taken[round_index] = self._detours.round(self._plan.round(round_index))
        return self._rules(round_index)

    def leave(self, round_index: int) -> None:
        """A round is over."""
        del self._taken[round_index]

    def avoid(self, dead: Collection[int], begun: int) -> dict[int, RuleSet]:
        """The rules of the live rounds that take other trees now that these links are down.

        Parameters
        ----------
        dead
            Indices of links.
        begun
            The latest round that has begun. It and those before it keep their ways as
            long as all of these lead through; later ones return to the plan's.
        """
        self._detours = Detours(self._plan.topology, dead)
        changed = {}
        for k, before in sorted(self._taken.items()):
            kept = before if k <= begun else None
            self._taken[k] = self._detours.round(self._plan.round(k), kept)
            if self._taken[k] != before:
                changed[k] = self._rules(k)
        return changed

    def cut_off(self, round_index: int) -> tuple[tuple[str, str], ...]:
        """Senders and receivers of a live round between whom no way is left."""
        return cut_off(self._plan.round(round_index), self._taken[round_index])

    def _rules(self, round_index: int) -> RuleSet:
        return stream_rules(self._plan, round_index, self._taken[round_index].streams)
