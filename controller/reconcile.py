"""What has to change on one switch so that it holds the rules that it should."""

from dataclasses import dataclass, replace

from controller.rules import FlowRule, GroupRule, RuleSet


@dataclass(frozen=True)
class Difference:
    """Changes from the rules that a switch holds to those that are wanted.

    Attributes
    ----------
    new_groups, new_flows
        To be added: nothing there has their id, or their match.
    changed_groups, changed_flows
        To be put in the place of one with the same id, or the same match.
    stale_groups, stale_flows
        To be deleted.
    """

    new_groups: tuple[GroupRule, ...] = ()
    changed_groups: tuple[GroupRule, ...] = ()
    stale_groups: tuple[GroupRule, ...] = ()
    new_flows: tuple[FlowRule, ...] = ()
    changed_flows: tuple[FlowRule, ...] = ()
    stale_flows: tuple[FlowRule, ...] = ()


def difference(held: RuleSet, wanted: RuleSet) -> Difference:
    """Compare the rules of one switch; what is right already is left alone.

    Parameters
    ----------
    held, wanted
        Rules of the same switch, in each at most one with the same id or match.
    """
    groups = {group.group_id: group for group in held.groups}
    flows = {match(flow): flow for flow in held.flows}
    group_ids = {group.group_id for group in wanted.groups}
    matches = {match(flow) for flow in wanted.flows}
    other_groups = [group for group in wanted.groups if groups.get(group.group_id) != group]
    other_flows = [flow for flow in wanted.flows if flows.get(match(flow)) != flow]
    return Difference(
        new_groups=tuple(g for g in other_groups if g.group_id not in groups),
        changed_groups=tuple(g for g in other_groups if g.group_id in groups),
        stale_groups=tuple(g for g in held.groups if g.group_id not in group_ids),
        new_flows=tuple(f for f in other_flows if match(f) not in flows),
        changed_flows=tuple(f for f in other_flows if match(f) in flows),
        stale_flows=tuple(f for f in held.flows if match(f) not in matches),
    )


def match(flow: FlowRule) -> FlowRule:
    """A flow without what it does: a switch holds one of these."""
    return replace(flow, output_port=None, group_id=None)
