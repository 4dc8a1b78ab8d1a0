"""What the doctor makes of what it finds; that it runs on a bare interpreter."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed import doctor, machinechecks
from testbed.distribution import Distribution
from testbed.doctor import Diagnosis, as_json, diagnose, table
from testbed.errors import InputError, MachineError
from testbed.machinechecks import BOTH, KERNEL, REAL, SET_UP, SYSTEM, VIRTUAL, Check

ROOT = Path(__file__).parents[2]
SOUND = Check(SYSTEM, "disk", "9 GB free", True)
NETEM = Check(KERNEL, "netem", "no", False, "sudo modprobe sch_netem", REAL)
GUEST = Check(SET_UP, "virtual machine", "it does not boot", False, "sudo make setup", VIRTUAL)
PYTHON = Check(SYSTEM, "interpreter", "3.9", False, "upgrade", BOTH)


@pytest.mark.parametrize(
    ("checks", "runs", "clock"),
    [
        ((SOUND,), True, "real"),
        ((SOUND, NETEM), True, "virtual"),
        ((SOUND, GUEST), True, "real"),
        ((SOUND, NETEM, GUEST), False, "virtual"),
        ((PYTHON,), False, "real"),
    ],
)
def test_a_machine_is_fit_if_some_clock_runs(
    checks: tuple[Check, ...], runs: bool, clock: str
) -> None:
    found = Diagnosis(checks)
    assert found.runs is runs
    assert found.auto[0] == clock
    assert json.loads(as_json(found))["runs"] is runs
    assert ("no experiment can run here yet" in table(found)) is not runs


def test_each_lack_stands_with_its_mend_and_its_clock() -> None:
    lines = table(Diagnosis((SOUND, NETEM))).splitlines()
    (at,) = (n for n, line in enumerate(lines) if line.startswith("  LACK  netem"))
    assert lines[at].endswith("no (real clock only)")
    assert lines[at + 1].strip() == "→ sudo modprobe sch_netem"
    assert any("auto" in line and "lacks netem" in line for line in lines)
    assert any("→ make prove-real" in line for line in lines)


def test_json_has_every_check() -> None:
    told = json.loads(as_json(Diagnosis((SOUND, NETEM))))
    assert [check["name"] for check in told["checks"]] == ["disk", "netem"]
    assert told["checks"][1]["mend"] == "sudo modprobe sch_netem"
    assert told["clocks"]["real"] == {"runs": False, "lacks": ["netem"]}
    assert told["auto"]["clock"] == "virtual"


def test_a_part_that_cannot_be_checked_is_a_lack() -> None:
    def broken_part() -> list[Check]:
        raise MachineError("`dpkg-query` is not installed here")

    found = diagnose([lambda: [SOUND], broken_part])
    assert not found.runs
    assert found.checks[0] == SOUND
    assert (found.checks[1].name, found.checks[1].ok) == ("broken part", False)
    assert "dpkg-query" in table(found)


@given(
    st.lists(
        st.builds(
            Check,
            st.sampled_from([SYSTEM, SET_UP, KERNEL]),
            st.text(min_size=1, max_size=20),
            st.text(max_size=20),
            st.sampled_from([True, False, None]),
            st.text(max_size=20),
            st.sampled_from([BOTH, REAL, VIRTUAL, ()]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_whether_a_clock_runs_follows_from_its_lacks_alone(checks: list[Check]) -> None:
    found = Diagnosis(tuple(checks))
    for clock in doctor.CLOCKS:
        against = [c for c in checks if c.ok is False and clock in c.clocks]
        assert list(found.lacks(clock)) == against
    told = json.loads(as_json(found))
    assert told["runs"] == any(told["clocks"][clock]["runs"] for clock in doctor.CLOCKS)
    assert len(told["checks"]) == len(checks)


def test_bad_options_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--format", "xml"]) == InputError.status
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert told.count("\n") == 1


def test_it_runs_on_a_bare_interpreter_with_nothing_set_up(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c",
         f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.dont_write_bytecode = True\n"
         "from testbed.doctor import main; sys.exit(main(['--format', 'json']))"],
        env={"CLIQUENET_CACHE": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == MachineError.status, done.stderr
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["runs"] is False
    assert "environment" in told["clocks"]["virtual"]["lacks"]
    assert not (tmp_path / "cache").exists()


def test_parts_of_this_machine_are_told() -> None:
    checks = {check.name: check for check in machinechecks.system()}
    assert checks["interpreter"].ok
    assert int(checks["processors"].found) >= 1
    assert "GB free" in checks["disk"].found


@pytest.mark.parametrize(
    ("version", "ok"), [((3, 9, 18), False), ((3, 10, 0), True), ((3, 12, 1), True), (None, False)]
)
def test_the_interpreter_must_be_new_enough(version: tuple[int, ...] | None, ok: bool) -> None:
    check = machinechecks.interpreter_check(version)
    assert check.ok is ok
    assert bool(check.mend) is not ok


def test_too_little_memory_or_disk_is_a_lack() -> None:
    plenty = "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\nHugePages_Total: 0\n"
    assert machinechecks.memory_check(plenty).ok
    scarce = machinechecks.memory_check(plenty.replace("4000000", "900000"))
    assert (scarce.ok, scarce.found) == (False, "0.9 GB of 8.2 GB available")
    assert machinechecks.disk_check(10**9, 10**9).ok
    full = machinechecks.disk_check(10**9 - 1, 2 * 10**9)
    assert full.ok is False
    assert "2.0 GB needed" in full.found
    assert "CLIQUENET_CACHE" in full.mend


def test_packages_and_distribution() -> None:
    assert machinechecks.package_check("gcc", "4:12").found == "4:12"
    missing = machinechecks.package_check("gcc", None)
    assert (missing.ok, missing.mend) == (False, "sudo apt-get install gcc")
    assert machinechecks.distribution_check(Distribution("debian", "12")).ok
    unknown = machinechecks.distribution_check(Distribution("fedora", "40"))
    assert unknown.ok is None  # what counts is whether the packages are there
    assert "fedora 40" in unknown.found
