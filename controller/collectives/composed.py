"""All-reduce as a reduce-scatter and an all-gather that begins wherever that is done."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from controller.collectives.network import Network
from controller.collectives.routes import join_routes
from controller.collectives.schedule import Model, Schedule
from controller.collectives.task import Task
from controller.collectives.transfers import timed

Part = Callable[[Task], Schedule | None]
"""Makes a schedule for a part of the task."""


def composed_schedule(
    network: Network, task: Task, model: Model, part: Part, algorithm: str
) -> Schedule | None:
    """Both parts over the same links, timed anew: copies fill what the sums leave free.

    Parameters
    ----------
    network, task, model
        An all-reduce.
    part
        Makes the two parts; ``None`` of one of them is that of the whole.
    algorithm
        Name of the result.
    """
    sums = part(replace(task, collective="reduce-scatter"))
    copies = part(replace(task, collective="all-gather"))
    if sums is None or copies is None:
        return None
    first = np.argsort(sums.start_ps, kind="stable")
    then = np.argsort(copies.start_ps, kind="stable")
    return timed(
        network,
        task,
        model,
        join_routes(sums.routes, copies.routes),
        np.concatenate([sums.route[first], copies.route[then] + sums.routes.count]),
        np.concatenate([sums.chunk[first], copies.chunk[then]]),
        np.concatenate([sums.adds, copies.adds]),
        algorithm,
    )
