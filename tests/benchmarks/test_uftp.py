"""The comparison with uftp: its table, and one transfer in the virtual machine."""

import json
from pathlib import Path

import pytest

from benchmarks import uftp
from benchmarks.uftp import LOSSES_PERCENT, main, markdown, row, run_guest
from benchmarks.uftpguest import Case, Job
from benchmarks.uftpprogram import uftp_folder


def test_a_row_is_the_mean_of_its_transfers_and_its_share_of_the_link() -> None:
    assert row("uftp", 1.0, [900.0, 700.0], whole=True) == {
        "who": "uftp",
        "loss_percent": 1.0,
        "goodput_mbps": 800.0,
        "least_mbps": 700.0,
        "link_share_percent": 80.0,  # of 1 Gbit/s
        "transfers": 2,
        "intact": True,
    }


def test_the_table_has_a_line_per_sender_and_marks_what_did_not_all_arrive() -> None:
    rows = [
        row(who, loss, [900.0 - 100 * loss], whole=who != "ours" or loss < 1)
        for who in ("uftp", "ours")
        for loss in LOSSES_PERCENT
    ]
    assert markdown(rows).splitlines()[2:] == [
        "| uftp | 900 | 890 | 800 |",
        "| ours | 900 | 890 | 800 (incomplete) |",
    ]


def test_the_files_and_the_last_line_say_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row("ours", loss, [900.0], whole=True) for loss in LOSSES_PERCENT]
    monkeypatch.setattr(uftp, "own_rows", lambda _: rows)
    assert main(["--no-peer", "--results", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"rows": rows}
    assert (tmp_path / "out" / "uftp.md").read_text() == markdown(rows)
    assert len((tmp_path / "out" / "uftp.csv").read_text().splitlines()) == 1 + len(rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--no-peer", "--no-own"], "nothing is left"), (["--repeats", "0"], "--repeats")],
)
def test_bad_input_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.machine
def test_uftp_fills_the_link_and_pays_for_losses() -> None:
    job = Job(
        programs=str(uftp_folder()),
        size_bytes=2_000_000,
        rate_gbps=100,
        scale=100,
        mtu_bytes=9000,
        repeats=1,
        cases=(Case(name="clean", loss_percent=0), Case(name="lossy", loss_percent=5)),
    )
    ((clean,), (lossy,)) = run_guest(job).transfers
    assert clean.intact
    assert lossy.intact
    assert clean.naks == 0 < lossy.naks
    assert 950 < clean.goodput_mbps < 1000
    assert lossy.goodput_mbps < clean.goodput_mbps / 2  # half a second is uftp's first guess
