"""Each round with its own duration, instead of the slowest one's for all.

Ours. The paper's objective is T (A + ½) with one T. If round r lasts T_r, a
disturbance that is born with round s lives through the rounds s, s + 1, …, so
its lifetime in time is Σ_k S_s(k) T_{s+k}, and it is born half a round before
on average. The objective is the mean over the phases s of
Σ_k S_s(k) T_{s+k} + T_{s−1} / 2; with equal T_r this is T (A + ½) again.
"""

import math
from collections.abc import Sequence

import numpy as np

from controller.mixing import averaging_matrix
from controller.schedule import Schedule

_SETTLED = 1e-12
_MAX_PERIODS = 20_000


def own_time_objective_ms(
    schedule: Schedule, codes: Sequence[str], round_ms: Sequence[float]
) -> float:
    """Objective with a duration for each round, rms norm, in ms; infinite if it never mixes.

    Parameters
    ----------
    schedule
        Rounds of disjoint cliques.
    codes
        All islands.
    round_ms
        Duration of each round of the period.
    """
    index = {code: i for i, code in enumerate(codes)}
    count = len(codes)
    rounds = [
        averaging_matrix([[index[code] for code in clique] for clique in cliques], count)
        for cliques in schedule.rounds
    ]
    period = len(rounds)
    total_ms = 0.0
    for phase in range(period):
        product = np.eye(count)
        before = math.inf
        for k in range(_MAX_PERIODS * period):
            left = float(np.linalg.norm(product - 1 / count) / math.sqrt(count - 1))
            if left < _SETTLED:
                break
            if k % period == 0:
                if left >= before * (1 - _SETTLED):
                    return math.inf
                before = left
            total_ms += left * round_ms[(phase + k) % period]
            product = rounds[(phase + k) % period] @ product
        total_ms += round_ms[phase - 1] / 2
    return total_ms / period
