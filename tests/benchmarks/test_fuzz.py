"""A small fuzz run, and that a fault would be found."""

import json
import mmap
from collections import Counter

import pytest

from agents.wire import PacketType
from benchmarks import fuzz as command
from benchmarks.fuzztargets import EngineTarget, fuzz_context
from benchmarks.mutation import Fed, Mutator

FORMAT = {"short", "magic", "version", "type", "dtype", "job", "length", "crc"}
ADMISSION = {"round", "block", "clique", "contributor", "duplicate", "epoch"}
RECOVERY = {"range", "source", "epoch"}


def small_run(name: str, datagrams: int = 20_000, seed: int = 1) -> dict:
    return command.fuzz(name, datagrams, seed, progress=lambda _: None)


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("native", ADMISSION),
        ("reference", ADMISSION),
        ("island", ADMISSION | RECOVERY | {"overlap", "resent", "control"}),
        ("control", RECOVERY),
    ],
)
def test_damaged_datagrams_are_all_counted_and_every_reason_occurs(
    name: str, reasons: set[str]
) -> None:
    row = small_run(name)
    assert row["error"] == ""
    assert row["datagrams"] >= 20_000
    assert sum(row["counts"].values()) == row["datagrams"]
    assert row["counts"].keys() == FORMAT | reasons | {"accepted"}
    assert row["counts"]["accepted"] > 500


def test_the_engines_count_the_same_datagrams_alike() -> None:
    assert small_run("native", seed=5)["counts"] == small_run("reference", seed=5)["counts"]


def test_the_same_seed_makes_the_same_datagrams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "EPISODE_DATAGRAMS", 2000)
    assert small_run("reference", 1)["counts"] == small_run("reference", 1)["counts"]
    assert small_run("reference", 1, seed=2)["counts"] != small_run("reference", 1)["counts"]


class Losing(EngineTarget):
    """Loses a buffer now and then."""

    buffers = 0

    def feed(self, fed: Fed, now_ns: int) -> None:
        self.buffers += 1
        if self.buffers % 100:
            super().feed(fed, now_ns)


class Raising(EngineTarget):
    """Cannot take a buffer that holds one datagram."""

    def feed(self, fed: Fed, now_ns: int) -> None:
        if fed.datagrams == 1:
            raise ValueError("no way")
        super().feed(fed, now_ns)


class Growing(EngineTarget):
    """Keeps 1 MB of each episode."""

    kept: list[mmap.mmap] = []  # noqa: RUF012 - it is meant to stay

    def close(self) -> None:
        # Mapped, for the allocator may have freed memory at hand: then the process does not grow.
        page = mmap.mmap(-1, 1 << 20)
        page.write(b"x" * (1 << 20))
        self.kept.append(page)
        super().close()


@pytest.mark.parametrize(
    ("target", "found"), [(Losing, "were fed"), (Raising, "ValueError: no way (test_fuzz.py:")]
)
def test_a_fault_is_told_with_what_repeats_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target: type[EngineTarget],
    found: str,
) -> None:
    monkeypatch.setitem(command.TARGETS, "reference", target)
    assert command.main(["--target", "reference", "--datagrams", "8000", "--episode", "3"]) == 1
    printed = capsys.readouterr()
    (row,) = json.loads(printed.out.splitlines()[-1])["rows"]
    assert found in row["error"]
    assert row["repeat"] == "--target reference --seed 1 --episode 3"
    assert f"error: reference: {row['error']} ({row['repeat']})" in printed.err


def test_growth_beyond_the_limit_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(command.TARGETS, "reference", Growing)
    monkeypatch.setattr(command, "EPISODE_DATAGRAMS", 80)
    monkeypatch.setattr(command, "GROWTH_LIMIT_MB", 5.0)
    row = small_run("reference", 80 * 30)
    assert row["error"].startswith("the process grew by ")
    Growing.kept.clear()


def test_buffers_are_what_the_kernel_could_hand_over() -> None:
    target = EngineTarget(fuzz_context(), 0)
    mutator = Mutator(target.facts, (1,))
    sizes: Counter[bool] = Counter()
    for _ in range(2000):
        fed = mutator.next([0])
        assert fed.segment >= 1
        assert 0 <= fed.length <= len(fed.buffer)
        assert fed.datagrams == max(1, len(range(0, fed.length, fed.segment)))
        sizes[fed.length % fed.segment == 0] += 1
    assert min(sizes.values()) > 100
    assert target.facts.kind is PacketType.DATA


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "iland"], '--target "iland" is not valid: did you mean "island"?'),
        (["--datagrams", "0"], "--datagrams"),
        (["--seed", "x"], "--seed"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
