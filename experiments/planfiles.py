"""The files of a plan that is not run: the plan itself, its map, its rates over time."""

from pathlib import Path

from controller.plan import Plan
from experiments.figure_map import draw_map
from experiments.figure_plan import draw_plan
from testbed.errors import CliquenetError
from testbed.paths import give_to_caller, make_dir

PLANS = "plans"


def write_plan_files(folder: Path, plan: Plan) -> list[Path]:
    """Write ``plan.json``, ``map.png`` and ``rates.png`` into a folder, made if missing.

    Raises
    ------
    CliquenetError
        The folder cannot be written.
    """
    try:
        make_dir(folder)
        path = folder / "plan.json"
        plan.write(path)
        files = [path, draw_map(folder, plan), draw_plan(folder, plan)]
    except OSError as error:
        raise CliquenetError(f"cannot write the plan into {folder}: {error}") from error
    give_to_caller(folder)
    return files
