"""What a switch says that it holds is read back as the rules that it was given."""

from types import SimpleNamespace
from typing import Any

import pytest
from made_networks import NINE
from ryu.ofproto import ofproto_v1_3, ofproto_v1_3_parser

from controller.installer import Add
from controller.messages import openflow_messages
from controller.planner import make_plan
from controller.rules import RuleSet, base_rules, round_rules
from controller.schedule import load_schedule
from controller.tables import Reading

PLAN = make_plan(
    NINE,
    load_schedule("triangles", NINE),
    payload_bytes=1e8,
    memory_bytes=1e12,
    rounds=2,
    trees="shortest-path",
)
DATAPATH = SimpleNamespace(ofproto=ofproto_v1_3, ofproto_parser=ofproto_v1_3_parser)


def read(groups: list[list[Any]], flows: list[list[Any]]) -> list[RuleSet | None]:
    """Feed the parts of two answers, in turns; returns what came of it."""
    found: list[RuleSet | None] = []
    reading = Reading(1, found.append)
    for number, part in enumerate(groups):
        reading.groups(message(part, more=number + 1 < len(groups)))
    for number, part in enumerate(flows):
        assert found == []
        reading.flows(message(part, more=number + 1 < len(flows)))
    return found


def message(body: list[Any], *, more: bool) -> Any:
    return SimpleNamespace(datapath=DATAPATH, body=body, flags=int(more))


def told(rules: RuleSet) -> tuple[list[Any], list[Any]]:
    """Groups and flows as a switch describes them after it was given them."""
    made = list(openflow_messages(DATAPATH, [Add(r) for r in (*rules.groups, *rules.flows)]))
    groups = [
        SimpleNamespace(type=m.type, group_id=m.group_id, buckets=m.buckets)
        for m in made[: len(rules.groups)]
    ]
    flows = [
        SimpleNamespace(
            table_id=m.table_id, priority=m.priority, match=m.match, instructions=m.instructions
        )
        for m in made[len(rules.groups) :]
    ]
    return groups, flows


def test_rules_come_back_as_they_were_made_in_any_number_of_parts() -> None:
    rules = (base_rules(PLAN) + round_rules(PLAN, 0) + round_rules(PLAN, 1)).of(1)
    groups, flows = told(rules)
    assert groups
    assert read([groups], [flows]) == [rules]
    assert read([groups[:1], [], groups[1:]], [flows[:5], flows[5:]]) == [rules]
    assert read([[]], [[]]) == [RuleSet()]


@pytest.mark.parametrize(
    "change",
    [
        {"table_id": 3},
        {"instructions": []},
        {"instructions": [ofproto_v1_3_parser.OFPInstructionGotoTable(1)]},
        {"match": ofproto_v1_3_parser.OFPMatch(eth_type=0x0806)},
        {"match": ofproto_v1_3_parser.OFPMatch(eth_type=0x0800, ipv4_dst="10.0.0.1", ip_dscp=1)},
    ],
)
def test_a_flow_that_no_plan_makes_is_strange(change: dict[str, Any]) -> None:
    _, flows = told(base_rules(PLAN).of(1))
    strange = SimpleNamespace(**{**vars(flows[0]), **change})
    assert read([[]], [[*flows, strange]]) == [None]


def test_a_group_of_another_type_is_strange() -> None:
    groups, _ = told(round_rules(PLAN, 0).of(1))
    strange = SimpleNamespace(**{**vars(groups[0]), "type": ofproto_v1_3.OFPGT_SELECT})
    assert read([[strange]], [[]]) == [None]
