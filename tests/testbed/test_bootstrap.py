import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.bootstrap import ACTIONS, install, main
from testbed.distribution import (
    Distribution,
    apt_reason,
    missing_packages,
    this_distribution,
)
from testbed.environment import (
    LOCK_FILE,
    build_tool_lines,
    ensure_environment,
    environment_exists,
    environment_python,
    pip_reason,
)
from testbed.errors import MachineError

ROOT = Path(__file__).parents[2]


def test_a_distribution_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "os-release"
    file.write_text('PRETTY_NAME="Ubuntu = 22.04"\nID=ubuntu\nVERSION_ID="22.04"\n\n')
    assert this_distribution(file) == Distribution("ubuntu", "22.04")
    with pytest.raises(MachineError, match="cannot tell the distribution"):
        this_distribution(tmp_path / "none")


@pytest.mark.parametrize(
    ("distribution", "source"),
    [
        (Distribution("debian", "12"), "linux-source-6.1"),
        (Distribution("ubuntu", "22.04"), "linux-source-5.15.0"),
        (Distribution("ubuntu", "24.04"), "linux-source-6.8.0"),
    ],
)
def test_each_known_distribution_has_its_kernel_source(
    distribution: Distribution, source: str
) -> None:
    packages = distribution.packages()
    assert [name for name in packages if name.startswith("linux-source")] == [source]
    assert {"mininet", "openvswitch-switch", "python3-venv", "gcc", "flex"} <= set(packages)


def test_an_unknown_distribution_is_told_what_is_known() -> None:
    with pytest.raises(MachineError, match=r"not know fedora 40; it knows debian 12, ubuntu 22"):
        Distribution("fedora", "40").packages()


def test_missing_packages_are_found_in_order() -> None:
    assert missing_packages(("zz-none", "dpkg", "aa-none")) == ["zz-none", "aa-none"]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (
            "Err:1 http://deb.example.org stable InRelease\n  Temporary failure resolving",
            "the package server does not answer (Err:1 http://deb.example.org stable InRelease)",
        ),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "no space left"),
        ("E: dpkg was interrupted, you must run 'dpkg --configure -a'", "an earlier inst"),
        ("Reading lists\nE: Unable to locate package x\nE: more", "E: Unable to locate package x"),
        ("nothing telling", "nothing telling"),
        ("", "no output"),
    ],
)
def test_the_package_managers_failure_is_told_in_one_line(output: str, told: str) -> None:
    assert apt_reason(output).startswith(told)


def test_without_root_the_command_that_installs_is_told() -> None:
    if os.getuid() == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        with pytest.raises(MachineError, match=r"2 packages .*`sudo apt-get install bc flex`"):
            install(["bc", "flex"])
    finally:
        os.seteuid(os.getuid())


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("WARNING: Retrying after NewConnectionError(...)", "registry does not answer"),
        ("ERROR: No matching distribution found for x==1\n", "does not have x==1: check"),
        ("OSError: [Errno 28] No space left on device", "no space left on the disk"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "its hash differs"),
        ("error: command 'gcc' failed: No such file or directory", "no compiler"),
        ("note\nERROR: Cannot install x\nhint", "ERROR: Cannot install x"),
    ],
)
def test_pips_failure_is_told_in_one_line(output: str, told: str) -> None:
    assert told in pip_reason(output)
    assert "\n" not in pip_reason(output)


def test_the_build_tools_come_from_the_lock_with_their_hashes() -> None:
    lines = build_tool_lines(LOCK_FILE.read_text())
    pinned = dict(re.findall(r"^(\w+)==(\S+)", lines, re.MULTILINE))
    # The last versions that build ryu 4.34.
    assert pinned == {"pip": "24.3.1", "setuptools": "67.8.0", "wheel": "0.45.1", "pbr": "6.1.1"}
    for entry in re.split(r"^(?=\w)", lines, flags=re.MULTILINE)[1:]:
        assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)) == 2


def test_a_lock_without_a_build_tool_is_refused() -> None:
    with pytest.raises(MachineError, match="does not pin setuptools"):
        build_tool_lines("pip==1 \\\n    --hash=sha256:00\n")


def cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_RETRIES", "0")


def test_a_registry_that_does_not_answer_is_told_and_leaves_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIQUENET_CACHE", str(tmp_path))
    cut_off(monkeypatch)
    with pytest.raises(MachineError, match="registry does not answer") as caught:
        ensure_environment()
    assert not environment_exists()
    log = next((tmp_path / "venv").glob("*.log"))
    assert str(log) in str(caught.value)
    assert [p.name for p in (tmp_path / "venv").iterdir() if p.is_dir()] == []


def test_a_half_made_environment_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIQUENET_CACHE", str(tmp_path))
    half = environment_python().parent
    half.mkdir(parents=True)
    (half / "python").symlink_to(sys.executable)
    assert not environment_exists()
    (half.parent / "complete").touch()
    assert environment_exists()


def test_an_unknown_action_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["print-pyton"]) == 2
    assert capsys.readouterr().err == (
        'error: no action "print-pyton": did you mean "print-python"?\n'
    )
    assert set(ACTIONS) == {"set-up", "print-python", "give-back", "clear-cache"}


def test_before_set_up_the_interpreter_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLIQUENET_CACHE", str(tmp_path))
    assert main(["print-python"]) == MachineError.status == 5
    assert "run `sudo make setup`" in capsys.readouterr().err


def test_clearing_the_cache_takes_only_what_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIQUENET_CACHE", str(tmp_path))
    for name in ("venv", "kernel", "native", "theirs"):
        (tmp_path / name / "deep").mkdir(parents=True)
    assert main(["clear-cache"]) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["theirs"]


def test_set_up_runs_on_a_bare_interpreter() -> None:
    code = "import testbed.bootstrap, sys; print(*sorted(m.split('.')[0] for m in sys.modules))"
    done = subprocess.run(
        ["/usr/bin/python3", "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    ours = {"testbed", "agents", "__main__"}
    foreign = set(done.stdout.split()) - sys.stdlib_module_names - ours
    assert foreign == set()
