import re
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import CommandError, MachineError
from testbed.virtualtime.edits import EDITS, SourceEdit, apply_edits
from testbed.virtualtime.kernel import (
    CONFIG,
    asked_options,
    build_reason,
    cached_kernel,
    check_options,
    ensure_kernel,
)
from testbed.virtualtime.source import KernelSource, find_source

NAMES = st.from_regex(r"CONFIG_[A-Z0-9_]{1,20}", fullmatch=True)
VALUES = st.sampled_from(["y", "n", '"text"', "1000"])


@given(st.dictionaries(NAMES, VALUES))
def test_what_is_written_as_configuration_is_read_back(options: dict[str, str]) -> None:
    lines = ["# a remark", ""]
    for name, value in options.items():
        lines.append(f"# {name} is not set" if value == "n" else f"{name}={value}")
    assert asked_options("\n".join(lines)) == options


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CONFIG_NET y", "line 1: `CONFIG_NET y` is no option"),
        ("\nCONFIG_NET", "line 2"),
        ("CONFIG_NET=y\nCONFIG_UNIX=y\nCONFIG_NET=n", "line 3: CONFIG_NET stands twice"),
        ("CONFIG_NET=y\n# CONFIG_NET is not set", "line 2: CONFIG_NET stands twice"),
    ],
)
def test_a_bad_configuration_is_refused(text: str, told: str) -> None:
    with pytest.raises(MachineError, match=re.escape(told)):
        asked_options(text)


def test_our_configuration_asks_for_time_travel_netem_and_the_switch() -> None:
    asked = asked_options(CONFIG.read_text())
    for name in ("UML_TIME_TRAVEL_SUPPORT", "NET_SCH_NETEM", "OPENVSWITCH", "HOSTFS"):
        assert asked[f"CONFIG_{name}"] == "y"
    assert asked["CONFIG_RAID6_PQ_BENCHMARK"] == "n"


def test_an_option_that_was_dropped_or_forced_is_named() -> None:
    asked = {"CONFIG_A": "y", "CONFIG_B": "n", "CONFIG_C": "y", "CONFIG_D": "n"}
    check_options(asked, "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\nCONFIG_X=y\n")
    with pytest.raises(MachineError, match=r"accept: CONFIG_B=n, CONFIG_C=y$"):
        check_options(asked, "CONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\n")


def test_edits_replace_their_anchor(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("one\ntwo\n")
    apply_edits(tmp_path, (SourceEdit("a.c", "two", "2"), SourceEdit("a.c", "2", "II")))
    assert (tmp_path / "a.c").read_text() == "one\nII\n"


@pytest.mark.parametrize(("text", "found"), [("one", 0), ("two two", 2)])
def test_an_anchor_that_does_not_stand_exactly_once_is_refused(
    tmp_path: Path, text: str, found: int
) -> None:
    (tmp_path / "a.c").write_text(text)
    with pytest.raises(MachineError, match=f"`two` stands {found} times in a.c"):
        apply_edits(tmp_path, (SourceEdit("a.c", "two", "2"),))
    assert (tmp_path / "a.c").read_text() == text


def test_a_source_without_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"has no a\.c"):
        apply_edits(tmp_path, (SourceEdit("a.c", "two", "2"),))


def make_archive(path: Path, content: bytes = b"x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "content").write_bytes(content)
    with tarfile.open(path, "w:bz2") as archive:
        archive.add(path.parent / "content", arcname="content")
    (path.parent / "content").unlink()


def test_the_source_is_found_in_both_layouts_and_the_tested_version_first(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"apt-get install linux-source-6\.1"):
        find_source(tmp_path)
    make_archive(tmp_path / "linux-source-5.15.0" / "linux-source-5.15.0.tar.bz2")
    assert find_source(tmp_path).version == (5, 15)
    make_archive(tmp_path / "linux-source-6.8.0.tar.bz2")
    (tmp_path / "linux-patch-6.1-rt.patch.xz").touch()
    (tmp_path / "linux-config-6.1").mkdir()
    assert find_source(tmp_path).version == (6, 8)
    make_archive(tmp_path / "linux-source-6.1.tar.bz2")
    assert find_source(tmp_path).archive == tmp_path / "linux-source-6.1.tar.bz2"


def test_the_cached_kernel_moves_with_source_configuration_and_edits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIQUENET_CACHE", str(tmp_path / "cache"))
    one, other = tmp_path / "linux-source-6.1.tar.bz2", tmp_path / "linux-source-6.8.tar.bz2"
    make_archive(one)
    make_archive(other, b"y")
    source = KernelSource(one, (6, 1))
    config = CONFIG.read_text()
    places = {
        cached_kernel(source),
        cached_kernel(KernelSource(other, (6, 1))),
        cached_kernel(source, config=config + "CONFIG_MORE=y\n"),
        cached_kernel(source, edits=EDITS[:-1]),
    }
    assert len(places) == 4
    assert cached_kernel(source) in places
    assert all(place.parts[-4:-2] == ("cache", "kernel") for place in places)


def test_a_missing_tool_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_archive(tmp_path / "linux-source-6.1.tar.bz2")
    monkeypatch.setenv("CLIQUENET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match=r"needs gcc, make, flex.*apt-get install gcc"):
        ensure_kernel(find_source(tmp_path))


def test_a_source_that_does_not_unpack_leaves_its_log_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "linux-source-6.1.tar.xz").write_bytes(b"no archive")
    monkeypatch.setenv("CLIQUENET_CACHE", str(tmp_path / "cache"))
    with pytest.raises(MachineError, match=r"building the kernel: .*not recognized") as caught:
        ensure_kernel(find_source(tmp_path))
    log = next((tmp_path / "cache" / "kernel").glob("*.log"))
    assert str(log) in str(caught.value)
    assert "not recognized" in log.read_text()
    assert sorted(p.name for p in log.parent.iterdir()) == sorted([log.name, "lock"])


def test_a_killed_builds_folder_is_swept_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "linux-source-6.1.tar.xz").write_bytes(b"no archive")
    monkeypatch.setenv("CLIQUENET_CACHE", str(tmp_path / "cache"))
    left = tmp_path / "cache" / "kernel" / "build-left"
    left.mkdir(parents=True)
    with pytest.raises(MachineError):
        ensure_kernel(find_source(tmp_path))
    assert not left.exists()


def test_the_reason_is_the_first_line_that_names_an_error() -> None:
    output = "  CC a.o\nb.c:1: error: no such thing\nmake[2]: *** [b.o] Error 1\nmake: Error 2\n"
    assert build_reason(CommandError(["make"], 2, output)) == "b.c:1: error: no such thing"
    assert build_reason(CommandError(["make"], 2, "Killed\n")) == "Killed"


@pytest.mark.machine
def test_the_built_kernel_has_every_option_that_was_asked_for() -> None:
    configured = (ensure_kernel().parent / "config").read_text()
    check_options(asked_options(CONFIG.read_text()), configured)
