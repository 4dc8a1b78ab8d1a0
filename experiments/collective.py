"""The command that schedules a collective: find the fastest, write the files, print a table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from controller.collectives.choose import AUTO, Choice, Outcome, choose
from controller.collectives.msccl import to_algorithm
from controller.collectives.mscclxml import write_msccl
from controller.collectives.schedule import MODELS, Model, Schedule
from controller.collectives.schedulefile import write_schedule_file
from controller.collectives.sources import Source, load_network
from controller.collectives.synthesis import Effort
from controller.collectives.task import Task, make_task
from experiments.figure_collective import draw_expanded, draw_links
from experiments.terminal import print_object
from experiments.units import format_bytes, parse_bytes
from testbed.errors import CliquenetError, InputError, UntrustedRunError, suggestion
from testbed.paths import give_to_caller, make_dir
from testbed.progress import Step

COLLECTIVES_DIR = "collectives"

# Beyond this files would be hundreds of megabytes; a step of XML takes 300 bytes.
_MAX_WRITTEN_SENDS = 1_000_000
_MAX_XML_SENDS = 100_000


@dataclass(frozen=True)
class CollectiveRequest:
    """What is asked for, as it was typed.

    Attributes
    ----------
    topology, collective, algorithm, payload, model
        Texts; see `load_network`, `make_task`, `choose`.
    chunks
        Pieces of the payload; 0 chooses.
    root
        Name of a worker; empty is the first one.
    seed, budget_s
        Of the synthesis.
    multicast, aggregation
        What switches can do.
    """

    topology: str
    collective: str
    algorithm: str = AUTO
    payload: str = "1.79GB"
    model: str = "pipelined"
    chunks: int = 0
    root: str = ""
    seed: int = 1
    budget_s: float = 30.0
    multicast: bool = True
    aggregation: bool = True


def collective_and_show(request: CollectiveRequest, results_dir: Path, *, as_json: bool) -> int:
    """Schedule a collective into ``collectives/<network>-<collective>``, and print it.

    Raises
    ------
    InputError
        Something that was asked for does not exist or does not fit.
    UntrustedRunError
        The checker found a fault, after everything has been printed.
    """
    source = load_network(
        request.topology, multicast=request.multicast, aggregation=request.aggregation
    )
    task, model = _task(request, source), _model(request.model)
    if not 0 < request.budget_s < float("inf"):
        raise InputError(f'BUDGET: "{request.budget_s:g}" is not valid: write seconds, above 0')
    if request.seed < 0:
        raise InputError(f'SEED: "{request.seed}" is not valid: write a number from 0 on')
    effort = Effort(seed=request.seed, budget_s=request.budget_s)
    with Step(f"scheduling {task.collective} on {source.network.name}"):
        choice = choose(
            source.network,
            task,
            model,
            algorithm=request.algorithm,
            chunks=request.chunks,
            effort=effort,
        )
    folder = results_dir / COLLECTIVES_DIR / f"{source.network.name}-{task.collective}"
    files, notes = _write(folder, choice.best.schedule)
    notes = (*source.notes, *choice.notes, *notes)
    if as_json:
        shown = {**choice_object(choice), "notes": notes, "files": [str(path) for path in files]}
        print_object(shown)
    else:
        _print(choice, notes, folder)
    faulty = [outcome for outcome in choice.outcomes if outcome.faults]
    if faulty:
        raise UntrustedRunError(f"{faulty[0].schedule.algorithm}: {faulty[0].faults[0]}")
    return 0


def choice_object(choice: Choice) -> dict[str, Any]:
    """All outcomes as one JSON object; that of the fastest at its top."""
    best = choice.best
    task = best.schedule.task
    return {
        "topology": best.schedule.network.name,
        "nodes": len(task.workers),
        "collective": task.collective,
        "payload_bytes": task.payload_bytes,
        "model": best.schedule.model,
        **_row(best),
        "bounds_us": dict(best.bounds.each_us),
        "rows": [_row(outcome) for outcome in choice.outcomes],
    }


def _row(outcome: Outcome) -> dict[str, Any]:
    task = outcome.schedule.task
    return {
        "algorithm": outcome.schedule.algorithm,
        "chunks": task.parts * task.split,
        "time_us": outcome.schedule.time_us,
        "bound_us": outcome.bounds.us,
        "bound": outcome.bounds.name,
        "over_bound": outcome.over_bound,
        "sends": outcome.schedule.sends,
        "attempts": outcome.attempts,
        "cpu_s": round(outcome.cpu_s, 4),
        "valid": not outcome.faults,
        "faults": list(outcome.faults),
    }


def _task(request: CollectiveRequest, source: Source) -> Task:
    network, root = source.network, None
    if request.root:
        names = {node.name: i for i, node in enumerate(network.nodes) if node.worker}
        if request.root not in names:
            hint = suggestion(request.root, names)
            raise InputError(f'ROOT: "{request.root}" is not a worker; {hint}')
        root = names[request.root]
    try:
        payload_bytes = parse_bytes(request.payload)
    except InputError as error:
        raise InputError(f"PAYLOAD: {error}") from error
    return make_task(network, request.collective, payload_bytes, chunks=request.chunks, root=root)


def _model(text: str) -> Model:
    if text == "pipelined":
        return "pipelined"
    if text == "occupancy":
        return "occupancy"
    raise InputError(f'MODEL: "{text}" is not valid: {suggestion(text, MODELS)}')


def _write(folder: Path, schedule: Schedule) -> tuple[list[Path], tuple[str, ...]]:
    """Write the schedule as JSON and XML, and its pictures; say what could not be written."""
    if schedule.sends > _MAX_WRITTEN_SENDS:
        return [], (f"{schedule.sends} sends: no files are written",)
    notes: tuple[str, ...] = ()
    try:
        make_dir(folder)
        files = [folder / "schedule.json"]
        write_schedule_file(files[0], schedule)
        xml = folder / "schedule.xml"
        xml.unlink(missing_ok=True)
        try:
            if schedule.sends > _MAX_XML_SENDS:
                raise InputError(f"{schedule.sends} sends are more than {_MAX_XML_SENDS}")
            xml.write_text(write_msccl(to_algorithm(schedule)))
            files.append(xml)
        except InputError as error:
            notes = (f"no MSCCL file: {error}",)
        files += [draw_expanded(folder, schedule), draw_links(folder, schedule)]
    except OSError as error:
        raise CliquenetError(f"cannot write into {folder}: {error}") from error
    give_to_caller(folder)
    return files, notes


def _print(choice: Choice, notes: tuple[str, ...], folder: Path) -> None:
    best = choice.best.schedule
    size = format_bytes(best.task.payload_bytes)
    table = Table(title=f"{best.task.collective} of {size} on {best.network.name}, {best.model}")
    for name in ("algorithm", "chunks", "time, ms", "/ bound", "sends", "CPU, s", "check"):
        left = name == "algorithm"
        table.add_column(name, justify="left" if left else "right", no_wrap=left)
    for outcome in choice.outcomes:
        row = _row(outcome)
        table.add_row(
            row["algorithm"],
            str(row["chunks"]),
            f"{row['time_us'] / 1e3:.4g}",
            f"{row['over_bound']:.3f}",
            str(row["sends"]),
            f"{row['cpu_s']:.2f}",
            "valid" if row["valid"] else "FAULTY",
        )
    console = Console(highlight=False)
    console.print(table)
    bound = choice.best.bounds
    for line in (f"bound    {bound.us / 1e3:.4g} ms ({bound.name})", *notes, f"files    {folder}"):
        console.print(line, markup=False, soft_wrap=True)
