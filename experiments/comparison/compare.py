"""The comparison from end to end: search, plan, run, sweep, and write the table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.comparison.cases import (
    MEMORIES_BYTES,
    Case,
    base_config,
    comparison_id,
    named_cases,
    optimised_case,
)
from experiments.comparison.figure_rows import draw_agreement, draw_objectives
from experiments.comparison.figure_sweep import draw_memory_line, draw_winners
from experiments.comparison.packets import measure_cases, plan_cases
from experiments.comparison.rows import Row
from experiments.comparison.sweep import PAPER_TREES, memory_line, payload_grid, sweep
from experiments.comparison.tables import write_csv, write_markdown
from experiments.config import NAMED_SCHEDULES, ExperimentConfig
from experiments.optimizefiles import describe, schedule_file_name, write_schedule
from experiments.optimizing import PLAN_SETTINGS, find_best
from experiments.run import ProgressFactory
from experiments.units import format_bytes
from testbed.errors import InfeasibleError
from testbed.paths import give_to_caller, make_dir

COMPARISONS = "compare"


@dataclass(frozen=True)
class Request:
    """What to compare.

    Attributes
    ----------
    config
        What all rows share; its schedule, memory, multicast and aggregation do not count.
    quick
        A tenth of the payload, coarser sweeps.
    budget_s
        Seconds of search for the best schedule of each memory.
    schedules
        Named schedules.
    searches
        Whether to search the best schedule of each memory, and compare it too.
    sweeps
        Whether to plan over memories and payloads as well.
    workers
        Processes at a time; one per processor by default.
    force
        Run what the planner refuses.
    """

    config: ExperimentConfig
    quick: bool = False
    budget_s: float = 30.0
    schedules: tuple[str, ...] = NAMED_SCHEDULES
    searches: bool = True
    sweeps: bool = True
    workers: int | None = None
    force: bool = False


@dataclass(frozen=True)
class Comparison:
    """What came of it.

    Attributes
    ----------
    folder
        With table and plots.
    title
        Of the table.
    rows
        In the order of the table.
    files
        Everything that was written.
    notes
        What the user should know, a line each.
    """

    folder: Path
    title: str
    rows: list[Row]
    files: list[Path]
    notes: list[str]


def compare(request: Request, results_dir: Path, *, progress: ProgressFactory) -> Comparison:
    """Run a comparison, or what is left of one that was interrupted.

    Parameters
    ----------
    request
        What to compare.
    results_dir
        Folder of all runs; the comparison's own is ``compare/<id>`` below it.
    progress
        Makes the context manager that shows a step.

    Raises
    ------
    CliquenetError
        A case cannot be planned, or a worker was killed. A run that fails is a row.
    """
    base = base_config(request.config, quick=request.quick)
    cases = named_cases(base, request.schedules)
    folder = results_dir / COMPARISONS / comparison_id(cases, budget_s=request.budget_s)
    make_dir(folder)
    extra, notes = _optimised_cases(base, request, folder, progress)
    cases += extra
    with progress(f"planning {len(cases)} experiments") as step:
        plans = plan_cases(cases, workers=request.workers, tick=step.tick)
    with progress(f"running {len(cases)} experiments as packets") as step:
        rows = measure_cases(
            cases,
            plans,
            results_dir,
            workers=request.workers,
            force=request.force,
            tick=step.tick,
        )
    title = f"Comparison {folder.name}: {base.topology}, payload {format_bytes(base.payload_bytes)}"
    files = _write_table(folder, rows, title)
    if request.sweeps:
        files += _sweeps(base, request, folder, progress)
    give_to_caller(folder)
    notes += _reuse_notes(rows, results_dir)
    return Comparison(folder, title, rows, files, notes)


def _optimised_cases(
    base: ExperimentConfig, request: Request, folder: Path, progress: ProgressFactory
) -> tuple[list[Case], list[str]]:
    """Rows of the best schedules, one search per memory; searches done before are reused."""
    if not request.searches:
        return [], []
    cases: list[Case] = []
    notes: list[str] = []
    for memory_bytes in MEMORIES_BYTES:
        path = folder / schedule_file_name(memory_bytes)
        if path.exists():
            notes.append(f"reused {path.name} of an earlier search")
        else:
            config = base.model_copy(update={"memory_bytes": memory_bytes})
            name = format_bytes(memory_bytes, 3)
            try:
                with progress(f"searching the best schedule for memory {name}") as step:
                    found = find_best(config, budget_s=request.budget_s, tick=step.tick)
            except InfeasibleError as error:
                notes.append(f"no optimised schedule for memory {name}: {error}")
                continue
            write_schedule(path, found.schedule, describe(found))
        cases.append(optimised_case(base, path, memory_bytes, PLAN_SETTINGS))
    return cases, notes


def _write_table(folder: Path, rows: Sequence[Row], title: str) -> list[Path]:
    return [
        write_csv(folder / "table.csv", rows),
        write_markdown(folder / "table.md", rows, title),
        draw_objectives(folder, rows),
        draw_agreement(folder, rows),
    ]


def _sweeps(
    base: ExperimentConfig, request: Request, folder: Path, progress: ProgressFactory
) -> list[Path]:
    """Plan over memory, and over payload and memory, and draw both."""
    ours = [PAPER_TREES] if base.trees == PAPER_TREES else [PAPER_TREES, base.trees]
    # Over a whole grid, trees that are found in bounded time have to do.
    bounded = [family if family != "best" else "least-load" for family in ours]
    files: list[Path] = []
    with progress("planning over memory") as step:
        line = memory_line(base, quick=request.quick)
        points = sweep(base, line, ours, workers=request.workers, tick=step.tick)
        files += draw_memory_line(folder, points)
    with progress("planning over payload and memory") as step:
        grid = payload_grid(base, quick=request.quick)
        points = sweep(base, grid, bounded, workers=request.workers, tick=step.tick)
        files += draw_winners(folder, points)
    return files


def _reuse_notes(rows: Sequence[Row], results_dir: Path) -> list[str]:
    reused = [row.run_id for row in rows if row.source == "reused"]
    if not reused:
        return []
    return [
        f"reused {len(reused)} finished runs in {results_dir} (remove one to run it again): "
        + ", ".join(reused)
    ]
