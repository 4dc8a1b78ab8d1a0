"""What becomes of a finished run, whatever it ran: summary, plots, the printed table."""

from pathlib import Path
from typing import Any

import pandas as pd

from experiments.analyse import analyse, between_hosts
from experiments.figure_hosts import draw_sum, draw_transfers
from experiments.hostreport import print_host_summary
from experiments.plots import draw_plots
from experiments.report import print_summary
from experiments.results import read_json
from testbed.errors import InputError
from testbed.paths import give_to_caller


def work_out(run_dir: Path) -> dict[str, Any]:
    """Analyse, draw and print a run; returns its summary."""
    summary = analyse(run_dir)
    draw(run_dir)
    show = print_host_summary if between_hosts(run_dir) else print_summary
    show(run_dir, summary)
    return summary


def draw(run_dir: Path) -> list[Path]:
    """Draw the plots of an analysed run from its files; returns the figures."""
    if not between_hosts(run_dir):
        return draw_plots(run_dir)
    path = run_dir / "events" / "transfers.parquet"
    try:
        transfers = pd.read_parquet(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: analyse the run first") from error
    plots_dir = run_dir / "plots"
    plots_dir.mkdir(exist_ok=True)
    summary = read_json(run_dir / "summary.json")
    picture = draw_sum if "aggregators" in summary else draw_transfers
    made = [picture(plots_dir, transfers, summary)]
    give_to_caller(plots_dir)
    return made
