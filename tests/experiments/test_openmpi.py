"""Open MPI beside our collectives, without running it: arguments, arithmetic, rows."""

import subprocess
import sys
from pathlib import Path

import pytest

from controller.plan import Plan
from experiments.comparison import open_mpi
from experiments.comparison.collective_rows import cells
from experiments.comparison.open_mpi import compare_open_mpi, open_mpi_notes, open_mpi_rows
from experiments.openmpi import measure
from experiments.openmpi.guest import all_reduce
from experiments.openmpi.job import AllReduce, Case, Job, Report
from experiments.openmpi.launch import agent_script, command, reason
from experiments.openmpi.measure import measure_open_mpi, ring_arithmetic, vector_bytes
from experiments.openmpi.package import Installation, environment
from experiments.openmpi.rank import RankJob, RankReport, numbers, retransmitted_segments
from experiments.openmpi.variants import ALGORITHMS, all_variants, by_algorithm, eager
from experiments.planning import plan_experiment
from experiments.sources import load_config
from testbed.errors import CliquenetError, MachineError
from testbed.progress import Step

CONFIG = load_config(None, {"schedule": "ring"})
JOB = Job(
    root="/r", shim="/s", version="4.1", hosts=("a", "b"), variants=all_variants(8), repeats=2
)
RUNS = (
    AllReduce(time_ms=900.0, exact=True, retransmitted=1),
    AllReduce(time_ms=700.0, exact=True, retransmitted=2),
)
WRONG = AllReduce(time_ms=1.0, exact=False, retransmitted=0)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_experiment(CONFIG)


def test_arguments_start_a_rank_per_host_in_order_over_the_emulated_network() -> None:
    argv = command(["nyc", "lon"], {"coll_x": "4"}, Path("/agent"), ["some.module", "1"])
    text = " ".join(argv)
    assert "--host nyc,lon -np 2 --map-by node" in text
    assert "--mca plm_rsh_agent /agent" in text
    assert "--mca btl tcp,self --mca btl_tcp_if_include 10.0.0.0/16" in text
    assert "--mca coll_x 4" in text
    assert text.endswith(f"{sys.executable} -m some.module 1")


def test_the_remote_shell_enters_the_host_s_namespace_and_knows_no_other_host(
    tmp_path: Path,
) -> None:
    agent = tmp_path / "agent"
    agent.write_text(agent_script({"nyc": "/proc/1/fd/7", "lon": "/proc/1/fd/8"}))
    stub = tmp_path / "nsenter"
    stub.write_text('#!/bin/sh\necho "$1 $2 $3"; shift 7; echo "$@"\n')
    stub.chmod(0o755)

    def shell(*words: str) -> "subprocess.CompletedProcess[str]":
        path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        argv = ["/bin/sh", str(agent), *words]
        return subprocess.run(argv, env=path, capture_output=True, text=True, check=False)

    done = shell("lon", 'PATH=x ; orted -mca u "a;b"')
    assert done.stdout == ('--net=/proc/1/fd/8 unshare --uts\nlon PATH=x ; orted -mca u "a;b"\n')
    unknown = shell("rio", "orted")
    assert (unknown.returncode, unknown.stderr) == (1, "there is no host rio\n")


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (
            "-----\nIt cannot find it:\n\n   orted.  That\nmay be.\n-----\nadvice",
            "It cannot find it: orted",
        ),
        ("\n----\n", "it said nothing"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_a_failure_is_one_line_without_frames(output: str, said: str) -> None:
    assert reason(output) == said


def test_eager_messages_are_as_long_as_the_vector_and_all_algorithms_are_tried() -> None:
    settings = eager("ring", 1_000_000).settings
    assert int(settings["btl_tcp_eager_limit"]) > 1_000_000
    assert settings["coll_tuned_allreduce_algorithm"] == "4"
    assert "btl_tcp_eager_limit" not in by_algorithm("ring").settings
    names = [variant.name for variant in all_variants(8)]
    assert names == ["own choice", "ring", *(f"{name}, eager" for name in ALGORITHMS)]


def test_the_arithmetic_of_the_nine_cities_ring(plan: Plan) -> None:
    bytes_ms, delays_ms = ring_arithmetic(plan)
    assert bytes_ms == pytest.approx(16 / 9 * 1.79e9 * 8 / 100e9 * 1e3)  # each link once
    once_ms = 8.26 + 19.065 + 49.36 + 22.29 + 17.605 + 72.625 + 2.855 + 2.815 + 32.125
    assert delays_ms == pytest.approx(2 * once_ms - 2.855 - 2.815)  # all but the shortest two


def test_every_rank_brings_what_our_hosts_bring_and_no_more(plan: Plan) -> None:
    job = RankJob(seed=1, cities=(3, 0), wire_bytes=17.9e6, mtu_bytes=9000, repeats=1)
    own = numbers(job, 3)
    assert own.nbytes == vector_bytes(plan, 9000)
    assert 0.98 < own.nbytes / 17.9e6 < 1
    assert (own != numbers(job, 0)).any()


def test_retransmissions_are_read_by_name() -> None:
    text = "Udp: RetransSegs\nUdp: 9\nTcp: InSegs RetransSegs InErrs\nTcp: 5 7 1\n"
    assert retransmitted_segments(text) == 7


def test_an_all_reduce_lasts_until_its_last_rank_and_starts_at_one_instant() -> None:
    def report(begin_ns: int, end_ns: int, exact: bool) -> RankReport:
        return RankReport(
            begin_ns=(0, begin_ns), end_ns=(1, end_ns), exact=(True, exact), retransmitted=(0, 2)
        )

    ranks = [report(10_000_000, 15_000_000, True), report(10_000_000, 17_500_000, False)]
    assert all_reduce(ranks, 0).exact
    assert all_reduce(ranks, 1) == AllReduce(time_ms=7.5, exact=False, retransmitted=4)
    with pytest.raises(CliquenetError, match="at 2 different times"):
        all_reduce([*ranks, report(11_000_000, 12_000_000, True)], 1)


def test_rows_hold_the_last_all_reduce_and_say_what_failed(plan: Plan) -> None:
    cases = (
        Case(name="ring", runs=RUNS),
        Case(name="wrong", runs=(WRONG, RUNS[1])),
        Case(name="dead", error="no route to host"),
    )
    report = Report(job=JOB, cases=cases)
    good, wrong, dead = open_mpi_rows(report, plan)
    assert (good.schedule, good.t_measured_ms, good.verdict) == ("Open MPI, ring", 700.0, "PASS")
    assert good.bound_ms == pytest.approx(254.58, abs=0.01)
    assert (wrong.verdict, wrong.sums_exact) == ("FAIL", False)
    assert (dead.verdict, dead.reason, dead.source) == ("ERROR", "no route to host", "failed")
    assert cells(good)["planned ms"] == cells(dead)["measured ms"] == "–"
    text = "\n".join(open_mpi_notes(report, plan))
    for part in ("preloaded shim", "Open MPI 4.1", "ring 900.0", "again: 5", "254.6 ms"):
        assert part in text


def test_a_package_that_does_not_come_is_a_row(
    monkeypatch: pytest.MonkeyPatch, plan: Plan, tmp_path: Path
) -> None:
    def absent(*_: object, **__: object) -> Report:
        raise MachineError("cannot fetch open-mpi: no network")

    monkeypatch.setattr(open_mpi, "measure_open_mpi", absent)
    (row,), notes = compare_open_mpi(CONFIG, plan, tmp_path, Step)
    assert (row.schedule, row.source, notes) == ("Open MPI", "failed", [])
    assert "no network" in row.reason


def test_a_report_of_the_same_job_is_taken_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = []

    def run_program(_: str, __: object, folder: Path, *___: object) -> None:
        job = Job.model_validate_json((folder / "job.json").read_text())
        runs.append(job.hosts)
        (folder / "report.json").write_text(Report(job=job, cases=()).model_dump_json())

    here = Installation(tmp_path, tmp_path / "shim.so", "4.1")
    monkeypatch.setattr(measure, "ensure_open_mpi", lambda: here)
    monkeypatch.setattr(measure, "ensure_kernel", lambda: tmp_path)
    monkeypatch.setattr(measure, "run_program", run_program)
    folder = tmp_path / "run"
    first = measure_open_mpi(CONFIG, folder, progress=Step)
    assert measure_open_mpi(CONFIG, folder, progress=Step) == first
    assert runs == [("nyc", "chi", "lax", "tyo", "hkg", "sin", "fra", "ams", "lon")]
    measure_open_mpi(CONFIG, folder, repeats=1, progress=Step)
    (folder / "report.json").write_text("half a")
    measure_open_mpi(CONFIG, folder, repeats=1, progress=Step)
    assert len(runs) == 3


def test_the_environment_points_into_the_folder(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"no libmpi\.so\.40 below"):
        environment(tmp_path, tmp_path / "shim.so")
    libraries = tmp_path / "usr" / "lib" / "some-linux"
    libraries.mkdir(parents=True)
    (libraries / "libmpi.so.40").touch()
    found = environment(tmp_path, tmp_path / "shim.so")
    assert found["LD_LIBRARY_PATH"] == str(libraries)
    assert found["LD_PRELOAD"].endswith("shim.so")
    assert found["PATH"].startswith(f"{tmp_path}/usr/bin:")
