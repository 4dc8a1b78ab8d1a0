"""Open MPI between the hosts of three cities; a small payload."""

from pathlib import Path

import pytest

from experiments.openmpi.job import Variant
from experiments.openmpi.measure import measure_open_mpi, ring_arithmetic
from experiments.openmpi.variants import eager
from experiments.planning import plan_experiment
from experiments.sources import load_config
from testbed.progress import Step

pytestmark = pytest.mark.machine
TOPOLOGY = Path(__file__).parents[2] / "benchmarks" / "three-cities.yaml"


def test_open_mpi_adds_up_exactly_in_virtual_time_and_its_failure_is_one_line(
    tmp_path: Path,
) -> None:
    config = load_config(None, {"topology": str(TOPOLOGY), "schedule": "ring", "payload": "120MB"})
    absent = Variant(name="absent", settings={"pml": "absent"})
    report = measure_open_mpi(
        config,
        tmp_path,
        choose=lambda size_bytes: (eager("ring", size_bytes), absent),
        progress=Step,
    )
    ring, failed = report.cases
    assert [run.exact for run in ring.runs] == [True, True]
    assert ring.dropped == 0
    # Nobody beats the links, and but switches take in large segments whole.
    bytes_ms, delays_ms = ring_arithmetic(plan_experiment(config))
    assert bytes_ms < ring.runs[1].time_ms < 2 * (bytes_ms + delays_ms)
    assert failed.runs == ()
    assert failed.error
    assert "\n" not in failed.error
