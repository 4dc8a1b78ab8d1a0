"""Every kind of event, with Triangles and with All-to-All: what becomes of the rounds.

Run with ``python -m benchmarks.faultmatrix``. All runs are emulated in one virtual
machine per schedule, one after the other; behind each it looks for what was left. It
prints a table and, as its last line, one JSON object; status 3 if anything differs from
`benchmarks.faultcases`.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from agents.native.build import ensure_kernel_library
from benchmarks.faultcases import CASES, SCHEDULES, SETTINGS, moment, problems
from benchmarks.guestprogram import run_guest_program
from controller.plan import Plan, read_plan
from experiments.analysis import analyse_run
from experiments.planning import plan_experiment
from experiments.results import create_run
from experiments.run import make_runtime, record_start
from experiments.sources import load_config
from testbed.commandline import run_command_line
from testbed.errors import InputError, UntrustedRunError, suggestion
from testbed.progress import Step
from testbed.virtualtime.kernel import ensure_kernel

ROOT: Final = Path(__file__).parent.parent
_GUEST_MB: Final = 3072
_WALL_LIMIT_S: Final = 7200.0

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def run_matrix(folder: Path, schedule: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Run some cases with one schedule, and compare each with what is expected.

    Returns
    -------
    list of dict
        One row per case: outcomes by round, wrong sums, whether it hung, what it left,
        and ``problems``, empty if all is as it should be.

    Raises
    ------
    CliquenetError
        The virtual machine failed.
    """
    ensure_kernel_library()
    runs = {name: prepare(folder / str(i), schedule, name) for i, name in enumerate(names)}
    report = folder / "report.json"
    run_guest_program(
        "benchmarks.faultguest",
        report,
        *runs.values(),
        writable=folder,
        memory_mb=_GUEST_MB,
        wall_limit_s=_WALL_LIMIT_S,
    )
    told = json.loads(report.read_text())
    return [row(schedule, name, run, told[run.parent.name]) for name, run in runs.items()]


def prepare(folder: Path, schedule: str, name: str) -> Path:
    """The folder of a run that is planned and can be emulated."""
    case = CASES[name]
    values = {**SETTINGS, **case.settings, "schedule": schedule}
    at_ms, link = moment(plan_experiment(load_config(None, values)))
    events = case.events(at_ms, link)
    config = load_config(None, {**values, "events": events}).at_clock("virtual")
    plan = plan_experiment(config)
    folder.mkdir()
    run_dir = create_run(folder, config)
    runtime = make_runtime(config, plan, run_dir)
    record_start(run_dir, config, plan, runtime, ensure_kernel(), "")
    return run_dir


def row(schedule: str, name: str, run_dir: Path, told: Mapping[str, Any]) -> dict[str, Any]:
    """What came of one run."""
    left = [thing for things in told["left"].values() for thing in things]
    found = [f"left behind: {thing}" for thing in left]
    result: dict[str, Any] = {
        "event": name,
        "schedule": schedule,
        "hung": told["hung"],
        "left": left,
        "outcomes": [],
        "verdict": None,
        "blocks_wrong": None,
        "faults": [],
    }
    if told["status"] != 0:
        return {**result, "problems": [*found, f"it failed: {told['error']}"]}
    plan: Plan = read_plan(run_dir / "plan.json")
    summary, case = analyse_run(run_dir), CASES[name]
    return {
        **result,
        "outcomes": [told["outcome"] for told in summary["rounds"]],
        "missing": [told["contributions_missing"] for told in summary["rounds"]],
        "verdict": summary["verdict"],
        "blocks_wrong": summary["blocks_wrong"],
        "faults": summary["faults"],
        "trace_sha256": summary["trace_sha256"],
        "problems": [*found, *problems(case, summary, plan.round_interval_ms)],
    }


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one line per run; rounds in a row of the same outcome are counted."""
    table = Table(title="Events, and what became of the rounds", title_justify="left")
    for name in ("event", "schedule", "rounds", "wrong sums", "hung", "left", "verdict"):
        table.add_column(name)
    for told in rows:
        cells = (_in_runs(told["outcomes"]), told["blocks_wrong"], told["hung"], len(told["left"]))
        verdict = "; ".join([str(told["verdict"]), *told["problems"]])
        table.add_row(told["event"], told["schedule"], *map(str, cells), verdict)
    Console(highlight=False, width=160).print(table)


def _in_runs(outcomes: Sequence[str]) -> str:
    runs: list[tuple[str, int]] = []
    for outcome in outcomes:
        if runs and runs[-1][0] == outcome:
            runs[-1] = (outcome, runs[-1][1] + 1)
        else:
            runs.append((outcome, 1))
    return ", ".join(f"{count} {outcome}" for outcome, count in runs)


@app.command()
def matrix(
    schedule: Annotated[list[str] | None, typer.Option(help="Only with this one.")] = None,
    event: Annotated[list[str] | None, typer.Option(help="Only this one.")] = None,
) -> None:
    """Run the matrix, or a part of it."""
    schedules, names = schedule or SCHEDULES, event or tuple(CASES)
    for what, asked, known in (("schedule", schedules, SCHEDULES), ("event", names, CASES)):
        for name in set(asked) - set(known):
            raise InputError(f'no {what} "{name}" in the matrix: {suggestion(name, known)}')
    rows: list[dict[str, Any]] = []
    for one in schedules:
        step = Step(f"{len(names)} kinds of events with {one}")
        with tempfile.TemporaryDirectory(prefix="faults-") as folder, step:
            rows += run_matrix(Path(folder), one, names)
    print_rows(rows)
    found = [f"{told['event']}, {told['schedule']}: {p}" for told in rows for p in told["problems"]]
    wrong = sum(told["blocks_wrong"] or 0 for told in rows)
    totals = {
        "cells": len(rows),
        "as_defined": sum(not told["problems"] for told in rows),
        "wrong_sums": wrong,
        "hangs": sum(told["hung"] for told in rows),
        "left": sum(len(told["left"]) for told in rows),
    }
    sys.stdout.write(json.dumps({**totals, "rows": rows}, ensure_ascii=False) + "\n")
    sys.stdout.flush()
    if found:
        raise UntrustedRunError(found[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit status."""
    return run_command_line(app, arguments)


if __name__ == "__main__":
    sys.exit(main())
