import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_collectives import networks

from controller.collectives.check import check_schedule
from controller.collectives.choose import choose
from controller.collectives.csvfile import parse_csv_network, read_csv_network, write_csv_network
from controller.collectives.generators import cities, dragonfly, grid, star
from controller.collectives.graphml import parse_graphml
from controller.collectives.msccl import to_algorithm, to_transfers
from controller.collectives.mscclxml import read_msccl, write_msccl
from controller.collectives.network import Network
from controller.collectives.program import node_programs
from controller.collectives.schedule import Schedule
from controller.collectives.schedulefile import (
    parse_schedule,
    read_schedule_file,
    schedule_object,
    write_schedule_file,
)
from controller.collectives.synthesis import Effort, synthesise
from controller.collectives.task import COLLECTIVES, make_task
from controller.collectives.transfers import routed
from testbed.errors import InputError
from testbed.topology import load_topology

CSV = "3\nSrc,Dest,Latency (ns),Bandwidth (GB/s)\n0,1,500,50\n1,2,500,25\n2,0,1000,50\n"


def test_a_topology_of_the_published_program_is_read() -> None:
    network = parse_csv_network(CSV, "f.csv", "f")
    assert network.latency_ps.tolist() == [500_000, 500_000, 1_000_000]
    np.testing.assert_allclose(network.bytes_per_us, np.array([50, 25, 50]) * (1 << 30) / 1e6)


@given(networks())
def test_a_written_topology_is_read_again(network: Network) -> None:
    again = parse_csv_network(write_csv_network(network), "f.csv", "f")
    assert again.src.tolist() == network.src.tolist()
    assert again.dst.tolist() == network.dst.tolist()
    assert again.latency_ps.tolist() == network.latency_ps.tolist()
    np.testing.assert_allclose(again.byte_ps, network.byte_ps, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.csv: expected the number of nodes"),
        (CSV.replace("3\n", "x\n", 1), 'f.csv:1: expected the number of nodes.*"x"'),
        (CSV.replace("3\n", "1\n", 1), "f.csv:1: expected the number of nodes"),
        (CSV.replace("Dest", "Dst"), "f.csv:2: expected the header"),
        (CSV.replace("1,2,500,25", "1,2,500"), "f.csv:4: expected 4 values, found 3"),
        (CSV.replace("1,2,500,25", "1,7,500,25"), 'f.csv:4: "7" is no node'),
        (CSV.replace("1,2,500,25", "1,-2,500,25"), 'f.csv:4: "-2" is no node'),
        (CSV.replace("500,25", "fast,25"), 'f.csv:4: Latency .ns.: "fast" is not a number'),
        (CSV.replace("500,25", "500,0"), "f.csv:4: link 1→2: the bandwidth must be above 0"),
        (CSV.replace("500,25", "500,-1"), "f.csv:4: link 1→2: the bandwidth must be above 0"),
        (CSV.replace("500,25", "-5,25"), "f.csv:4: link 1→2: the latency must not be negative"),
        (CSV.replace("2,0,1000,50", "1,0,1000,50"), "not strongly connected"),
    ],
)
def test_a_malformed_topology_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_csv_network(text, "f.csv", "f")


@given(st.text(max_size=80))
def test_any_other_text_is_refused_in_one_way(text: str) -> None:
    for read in (
        lambda: parse_csv_network(text, "f", "f"),
        lambda: parse_graphml(text.encode(), "f", "f"),
        lambda: read_msccl(text, "f"),
        lambda: parse_schedule(text, "f"),
    ):
        with pytest.raises(InputError):
            read()


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a UTF-8 text file"):
        read_csv_network(path)


ZOO = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="Longitude" attr.type="double" for="node" id="d1" />
  <key attr.name="Latitude" attr.type="double" for="node" id="d2" />
  <key attr.name="label" attr.type="string" for="node" id="d3" />
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d4" />
  <graph edgedefault="undirected">
    <node id="0"><data key="d1">-74</data><data key="d2">40.7</data><data key="d3">NY</data></node>
    <node id="1"><data key="d1">-87.6</data><data key="d2">42</data><data key="d3">Chi</data></node>
    <node id="2"><data key="d3">?</data></node>
    <edge source="0" target="1"><data key="d4">100000000000.0</data></edge>
    <edge source="1" target="2"></edge>
  </graph>
</graphml>
"""


def test_a_topology_of_the_zoo_is_read() -> None:
    network, notes = parse_graphml(ZOO.encode(), "z.graphml", "z")
    assert [node.name for node in network.nodes] == ["NY", "Chi", "?"]
    assert network.links == 4
    # 1145 km, 30 % longer in fibre, at 200 km/ms.
    assert network.latency_ps[0] == pytest.approx(7.45e9, rel=0.01)
    assert network.bytes_per_us.tolist() == pytest.approx([12500, 12500, 1250, 1250])
    assert notes == ("1 of 2 links: 10 Gbit/s assumed", "1 of 2 links: 1 ms assumed")


def test_edges_with_a_direction_are_one_link() -> None:
    with pytest.raises(InputError, match="not strongly connected"):
        parse_graphml(ZOO.replace('"undirected"', '"directed"').encode(), "z", "z")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</graph>", "", "z:14: not XML: mismatched tag"),
        ("graphml", "html", "z:2: expected <graphml>|z:1: expected <graphml>"),
        ('target="2"', 'target="9"', 'z:12: edge: there is no node "9"'),
        ('<node id="1">', '<node id="0">', 'z:9: node "0" appears twice'),
        ('<node id="1">', "<node>", "z:9: a node has no id"),
        ("100000000000.0", "fast", 'z:11: LinkSpeedRaw: "fast" is not a number'),
        ("100000000000.0", "0", "z:11: link NY→Chi: the bandwidth must be above 0"),
        ("40.7", "140.7", "z:8: 140.7, -74 is no place on earth"),
        ('target="2"', 'target="1"', "joins a node to itself"),
    ],
)
def test_a_malformed_graphml_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_graphml(ZOO.replace(old, new).encode(), "z", "z")


SCHEDULES = [
    outcome.schedule
    for network in (grid([3, 3]), dragonfly(3, 2), star(4), cities(load_topology("nine-cities")))
    for collective in COLLECTIVES
    for outcome in choose(
        network,
        make_task(network, collective, 10**6),
        "pipelined",
        chunks=2 * make_task(network, collective, 10**6).parts,
        effort=Effort(attempts=2),
    ).outcomes
]


def sends_of(schedule: Schedule) -> list[tuple[int, ...]]:
    columns = (schedule.route, schedule.chunk, schedule.start_ps, schedule.adds)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_schedule_file_says_everything(tmp_path: Path) -> None:
    for schedule in SCHEDULES:
        write_schedule_file(tmp_path / "s.json", schedule)
        again = read_schedule_file(tmp_path / "s.json")
        assert sends_of(again) == sends_of(schedule)
        assert again.task == schedule.task
        assert again.network.nodes == schedule.network.nodes
        assert again.time_ps == schedule.time_ps
        assert check_schedule(again) == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", 9, "version 9 is not known"),
        ("model", "fast", "f: model"),
        ("pieces", 7, "does not fit"),
        ("sends", [[999, 0, 0, False]], "there is no route 999"),
        ("sends", [[0, 999, 0, False]], "there is no chunk 999"),
        ("routes", [{"sources": [[0, 0]], "targets": [[99, 0]], "hops": [[0, 0]]}], "no node 99"),
        ("routes", [{"sources": [[0, 0]], "targets": [[1, 0]], "hops": [[99, 0]]}], "no link 99"),
        ("extra", 1, "f: extra"),
    ],
)
def test_a_damaged_schedule_is_refused(key: str, value: object, message: str) -> None:
    damaged = {**schedule_object(SCHEDULES[0]), key: value}
    with pytest.raises(InputError, match=message):
        parse_schedule(json.dumps(damaged), "f")


def test_msccl_comes_back_as_it_went() -> None:
    for schedule in SCHEDULES:
        algorithm = to_algorithm(schedule)
        assert read_msccl(write_msccl(algorithm), "f") == algorithm
        transfers = to_transfers(algorithm, schedule.network, schedule.task)
        assert len(transfers.src) == schedule.sends
        again = routed(schedule.network, schedule.task, "pipelined", transfers, "again")
        assert check_schedule(again) == []


@given(networks(most=5), st.sampled_from(COLLECTIVES), st.integers(0, 99))
@settings(max_examples=40)
def test_any_synthesised_schedule_survives_both_formats(
    network: Network, collective: str, seed: int
) -> None:
    task = make_task(network, collective, 1000)
    schedule = synthesise(network, task, "pipelined", Effort(seed=seed, attempts=2)).schedule
    again = parse_schedule(json.dumps(schedule_object(schedule)), "f")
    assert sends_of(again) == sends_of(schedule)
    algorithm = to_algorithm(schedule)
    assert read_msccl(write_msccl(algorithm), "f") == algorithm
    transfers = to_transfers(algorithm, network, task)
    assert check_schedule(routed(network, task, "pipelined", transfers, "again")) == []


def test_fused_steps_are_read() -> None:
    text = """<algo name="chain" proto="Simple" nchannels="1" nchunksperloop="1" ngpus="3"
      coll="broadcast" inplace="1">
     <gpu id="0"><tb id="0" send="1" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1"
       deps="-1" hasdep="0"/></tb></gpu>
     <gpu id="1"><tb id="0" send="2" recv="0" chan="0">
      <step s="0" type="rcs" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1"
       deps="-1" hasdep="0"/></tb></gpu>
     <gpu id="2"><tb id="0" send="-1" recv="1" chan="0">
      <step s="0" type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1"
       deps="-1" hasdep="0"/></tb></gpu>
    </algo>"""
    network = star(3)
    task = make_task(network, "broadcast", 100)
    transfers = to_transfers(read_msccl(text, "f"), network, task)
    assert list(zip(transfers.src, transfers.dst, strict=True)) == [(0, 1), (1, 2)]
    assert check_schedule(routed(network, task, "pipelined", transfers, "chain")) == []


XML = write_msccl(to_algorithm(SCHEDULES[0]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</algo>", "", "not XML: no element found"),
        ("<algo", "<algos", "f:1: unknown element <algos>; did you mean"),
        ('coll="allgather"', 'coll="allgathr"', 'f:1: unknown coll "allgathr"; did you mean'),
        ('ngpus="9"', 'ngpus="12"', "ngpus says 12, found 9"),
        ('ngpus="9"', 'ngpus="x"', 'f:1: ngpus: "x" is not a whole number'),
        ('<gpu id="0"', '<gpu id="3"', "f:2: expected gpu 0, found 3"),
        ('type="s"', 'type="z"', 'f:4: unknown type "z"'),
        ('srcbuf="o"', 'srcbuf="q"', 'f:4: unknown buffer "q"'),
        ('cnt="1"', 'cnt="2"', "f:4: cnt: only steps of one chunk"),
        (' s="0"', ' s="1"', "f:4: expected step 0, found 1"),
    ],
)
def test_malformed_xml_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_msccl(XML.replace(old, new, 1), "f")


def test_an_algorithm_must_fit_the_network_and_run() -> None:
    schedule = SCHEDULES[0]
    algorithm = to_algorithm(schedule)
    with pytest.raises(InputError, match="is for 9 GPUs, switch-4 has 4 workers"):
        to_transfers(algorithm, star(4), make_task(star(4), "all-gather", 100))
    with pytest.raises(InputError, match="is no all-reduce"):
        to_transfers(algorithm, schedule.network, make_task(schedule.network, "all-reduce", 10**6))
    lost = read_msccl(XML.replace('type="r"', 'type="nop"', 1), "f")
    with pytest.raises(InputError, match="sends, "):
        to_transfers(lost, schedule.network, schedule.task)


def test_a_program_keeps_what_its_steps_depend_on() -> None:
    for schedule in SCHEDULES:
        arrived: set[int] = set()
        programs = node_programs(schedule)
        assert sum(len(steps) for steps in programs.values()) == 2 * schedule.sends
        for node, steps in programs.items():
            for position, step in enumerate(steps):
                assert all(earlier < position for earlier in step.after)
                assert all(steps[earlier].chunk == step.chunk for earlier in step.after)
                if step.kind == "send":
                    begun = schedule.task.begins(len(schedule.network.nodes))
                    writers = [steps[e].kind for e in step.after]
                    assert begun[node, step.chunk] or writers
                else:
                    arrived.add(step.transfer)
        assert arrived == set(range(schedule.sends))


def test_what_the_network_adds_up_is_no_program_of_hosts() -> None:
    network = star(3, multicast=True, aggregates=True)
    task = make_task(network, "all-reduce", 300)
    choice = choose(network, task, "pipelined", algorithm="multicast-aggregation")
    with pytest.raises(InputError, match="are not steps of hosts"):
        node_programs(choice.best.schedule)
