"""Feeds millions of damaged datagrams to the aggregator and to the island.

Run with ``python -m benchmarks.fuzz``. It checks that nothing raises, that every
datagram is counted exactly once, that memory stays within its limit, that sums of
a block never share a contributor, and that the process does not grow. It prints
its progress and, as its last line, one JSON object; status 1 if a check failed.
"""

import gc
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from agents.aggregator.native import NativeEngine
from agents.context import AgentContext
from benchmarks.fuzzcontrol import ControlTarget
from benchmarks.fuzztargets import (
    ROUNDS,
    EngineTarget,
    FuzzError,
    IslandTarget,
    Target,
    fuzz_context,
)
from benchmarks.mutation import Mutator
from testbed.commandline import run_command_line
from testbed.errors import InputError, suggestion

EPISODE_DATAGRAMS = 20_000
GROWTH_LIMIT_MB = 8.0
"""How much the process may grow after its first episodes."""
_WARM_EPISODES: Final = 5
_STEP_LIMIT_NS: Final = 200_000
_MEGABYTE: Final = 1 << 20
_PAGE_BYTES: Final = 4096
_TELL_S: Final = 5.0

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
TARGETS: Final[dict[str, Callable[[AgentContext, int], Target]]] = {
    "native": partial(EngineTarget, make=NativeEngine),
    "reference": EngineTarget,
    "island": IslandTarget,
    "control": ControlTarget,
}
WEIGHTS: Final = {"native": 10, "reference": 4, "island": 4, "control": 1}
"""How the datagrams are shared out; an answer to a request takes longest."""
Progress = Callable[[int], None]


def fuzz(
    name: str, datagrams: int, seed: int, *, first_episode: int = 0, progress: Progress
) -> dict[str, Any]:
    """Fuzz one target.

    Parameters
    ----------
    name
        Of `TARGETS`.
    datagrams
        How many at least.
    seed, first_episode
        Of all choices; where to begin, to repeat what was found.
    progress
        Called with the datagrams so far after each episode.

    Returns
    -------
    dict
        One row of the result; plain JSON values. ``error`` is empty if all is well.
    """
    ctx = fuzz_context()
    counts: Counter[str] = Counter()
    fed, episode, error, sizes = 0, first_episode, "", [resident_mb()]
    began = time.monotonic()
    while fed < datagrams and not error:
        fed_now, found, error = run_episode(name, ctx, (seed, episode))
        fed += fed_now
        counts += found
        gc.collect()  # an episode's objects refer to each other
        sizes.append(resident_mb())
        progress(fed)
        episode += 1
    growth_mb = max(sizes) - sizes[min(_WARM_EPISODES, len(sizes) - 1)]
    if not error and growth_mb > GROWTH_LIMIT_MB:
        error = f"the process grew by {growth_mb:.1f} MB; allowed are {GROWTH_LIMIT_MB:.0f}"
    return {
        "target": name,
        "datagrams": fed,
        "episodes": episode - first_episode,
        "seconds": round(time.monotonic() - began, 1),
        "growth_mb": round(growth_mb, 1),
        "counts": dict(sorted(counts.items())),
        "error": error,
        "repeat": f"--target {name} --seed {seed} --episode {episode - 1}" if error else "",
    }


def run_episode(
    name: str, ctx: AgentContext, seed: tuple[int, int]
) -> tuple[int, Counter[str], str]:
    """Fuzz a fresh target through all its rounds: datagrams, how they were counted, what failed."""
    target = TARGETS[name](ctx, seed[1])
    fed = 0
    try:
        mutator = Mutator(target.facts, seed)
        clock = np.random.Generator(np.random.PCG64(np.random.SeedSequence([*seed, 1])))
        now_ns = 0
        for current in range(ROUNDS):
            opening = (0, 1) if current == 0 else (current + 1,)
            closing = current - 1 if current else None
            for k in opening:
                target.change_rounds(closing, k if k < ROUNDS else None, now_ns)
                closing = None
            live = [k for k in (current, current + 1) if k < ROUNDS]
            while fed < EPISODE_DATAGRAMS * (current + 1) // ROUNDS:
                now_ns += int(clock.integers(_STEP_LIMIT_NS))
                buffer = mutator.next([*live, *live, current - 1 if current else ROUNDS])
                target.feed(buffer, now_ns)
                fed += buffer.datagrams
            check_accounts(target, fed)
        target.change_rounds(ROUNDS - 1, None, now_ns)
        check_accounts(target, fed)
        return fed, target.accounts(), ""
    except FuzzError as error:
        return fed, target.accounts(), str(error)
    except Exception as error:  # any that escapes is a finding
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        return fed, target.accounts(), f"{type(error).__name__}: {error} ({where})"
    finally:
        target.close()


def check_accounts(target: Target, fed: int) -> None:
    """Check that every datagram was counted exactly once.

    Raises
    ------
    FuzzError
        Some were not, or more than once.
    """
    accounts = target.accounts()
    if accounts.total() != fed:
        raise FuzzError(f"{fed} datagrams were fed, {accounts.total()} counted: {dict(accounts)}")


def resident_mb() -> float:
    """Memory of this process that is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * _PAGE_BYTES / _MEGABYTE


def _job(name: str, datagrams: int, seed: int, first_episode: int) -> dict[str, Any]:
    """Fuzz one target in a process of its own, so that its growth is its own."""
    told = time.monotonic()

    def show(fed: int) -> None:
        nonlocal told
        if time.monotonic() >= told + _TELL_S:
            told = time.monotonic()
            print(f"{name}: {fed} of {datagrams}", file=sys.stderr, flush=True)

    return fuzz(name, datagrams, seed, first_episode=first_episode, progress=show)


@app.command(help=__doc__)
def run(
    datagrams: Annotated[int, typer.Option(min=1, help="Of all targets together.")] = 10_000_000,
    target: Annotated[list[str] | None, typer.Option(help="Default: all.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 1,
    episode: Annotated[int, typer.Option(min=0, help="The first one.")] = 0,
) -> int:
    """Fuzz each target with its share of the datagrams."""
    names = target or list(TARGETS)
    for name in names:
        if name not in TARGETS:
            raise InputError(f'--target "{name}" is not valid: {suggestion(name, TARGETS)}')
    whole = sum(WEIGHTS[name] for name in names)
    shares = {name: -(-datagrams * WEIGHTS[name] // whole) for name in names}
    with ProcessPoolExecutor(mp_context=get_context("fork")) as workers:
        jobs = [workers.submit(_job, name, shares[name], seed, episode) for name in names]
        rows = [job.result() for job in jobs]
    failed = [f"{row['target']}: {row['error']} ({row['repeat']})" for row in rows if row["error"]]
    for line in failed:
        print(f"error: {line}", file=sys.stderr)
    total = sum(row["datagrams"] for row in rows)
    print(json.dumps({"seed": seed, "datagrams": total, "rows": rows}))
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    return run_command_line(app, arguments)


if __name__ == "__main__":
    sys.exit(main())
