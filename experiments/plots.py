"""Draws the plots of an analysed run from its files: no network, no root, no display."""

from pathlib import Path

import pandas as pd

from agents.wire import ELEMENT_BYTES, stream_layout
from controller.plan import read_plan
from experiments.figure_links import draw_links, draw_survival
from experiments.figure_map import draw_map
from experiments.figure_memory import draw_memory
from experiments.figure_timeline import draw_timeline
from experiments.results import read_json
from experiments.runtime import read_runtime
from testbed.errors import InputError
from testbed.paths import give_to_caller


def draw_plots(run_dir: Path) -> list[Path]:
    """Draw every plot of a run into ``plots/``.

    Returns
    -------
    list of Path
        The figures, and beside some of them their data as CSV.

    Raises
    ------
    InputError
        The run was not analysed, or a file is damaged.
    """
    plan = read_plan(run_dir / "plan.json")
    summary = read_json(run_dir / "summary.json")
    layout = stream_layout(
        plan.payload_bytes / plan.scale, read_runtime(run_dir / "runtime.json").mtu_bytes
    )
    streams = _table(run_dir, "streams")
    plots_dir = run_dir / "plots"
    plots_dir.mkdir(exist_ok=True)
    made = [
        draw_map(plots_dir, plan),
        draw_timeline(plots_dir, plan, streams, summary),
        *draw_links(plots_dir, plan, summary),
        *draw_survival(plots_dir, plan, summary),
    ]
    if plan.aggregation:
        block_bytes = layout.elements * ELEMENT_BYTES * plan.scale
        bursts = _table(run_dir, "bursts")
        made.append(draw_memory(plots_dir, plan, bursts, block_bytes, summary))
    give_to_caller(plots_dir)
    return made


def _table(run_dir: Path, name: str) -> pd.DataFrame:
    path = run_dir / "events" / f"{name}.parquet"
    try:
        return pd.read_parquet(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: analyse the run first") from error
