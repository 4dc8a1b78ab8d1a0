"""The generated networks of the scale benchmark are files that a user could write."""

from pathlib import Path

import pytest

from benchmarks.scale import schedule_text, topology_text
from controller.schedule import load_schedule
from testbed.generate import make_topology
from testbed.topology import load_topology


@pytest.mark.parametrize("count", [9, 18, 64])
def test_a_generated_network_comes_back_from_its_file(tmp_path: Path, count: int) -> None:
    made = make_topology(count, 1, regions=count // 3)
    path, plan = tmp_path / "made.yaml", tmp_path / "near.yaml"
    path.write_text(topology_text(made))
    plan.write_text(schedule_text(made))
    read = load_topology(str(path))
    assert read.edges == made.edges
    assert read.codes == made.codes
    rounds = load_schedule(plan, read).rounds
    assert [len(cliques) for cliques in rounds] == [count // 3] * 2
    assert all(len(set(clique)) == 3 for cliques in rounds for clique in cliques)
