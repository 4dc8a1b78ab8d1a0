"""What becomes of a finished run, whatever it ran: summary, plots, the printed table."""

from pathlib import Path
from typing import Any

import pandas as pd

from controller.plan import read_plan
from experiments.analysis import analyse_run
from experiments.figure_hosts import draw_transfers
from experiments.hostanalysis import analyse_host_run
from experiments.hostreport import print_host_summary
from experiments.plots import draw_plots
from experiments.report import print_summary
from experiments.results import read_json
from testbed.errors import InputError
from testbed.paths import give_to_caller


def work_out(run_dir: Path) -> dict[str, Any]:
    """Analyse, draw and print a run; returns its summary."""
    if _between_hosts(run_dir):
        summary = analyse_host_run(run_dir)
        draw(run_dir)
        print_host_summary(run_dir, summary)
        return summary
    summary = analyse_run(run_dir)
    draw(run_dir)
    print_summary(run_dir, summary)
    return summary


def draw(run_dir: Path) -> list[Path]:
    """Draw the plots of an analysed run from its files; returns the figures."""
    if not _between_hosts(run_dir):
        return draw_plots(run_dir)
    path = run_dir / "events" / "transfers.parquet"
    try:
        transfers = pd.read_parquet(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: analyse the run first") from error
    plots_dir = run_dir / "plots"
    plots_dir.mkdir(exist_ok=True)
    made = [draw_transfers(plots_dir, transfers, read_json(run_dir / "summary.json"))]
    give_to_caller(plots_dir)
    return made


def _between_hosts(run_dir: Path) -> bool:
    return read_plan(run_dir / "plan.json").collective is not None
