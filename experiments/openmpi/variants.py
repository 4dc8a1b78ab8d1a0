"""The variants of Open MPI's all-reduce that are measured (parameters of Open MPI 4.1)."""

from collections.abc import Mapping
from types import MappingProxyType

from experiments.openmpi.job import Variant

OWN_CHOICE = "own choice"
EAGER = ", eager"
ALGORITHMS: Mapping[str, int] = MappingProxyType(
    {"recursive doubling": 3, "ring": 4, "segmented ring": 5, "Rabenseifner": 6}
)
"""Values of ``coll_tuned_allreduce_algorithm``."""

_SEGMENT_BYTES = 1 << 20
"""What Open MPI takes itself when it chooses the segmented ring."""
_ROOM_BYTES = 4096
"""Of a message's header, generously."""


def as_it_comes() -> Variant:
    """Open MPI decides everything."""
    return Variant(name=OWN_CHOICE)


def by_algorithm(name: str) -> Variant:
    """One algorithm; messages above 64 kB are sent once the receiver has agreed."""
    settings = {
        "coll_tuned_use_dynamic_rules": "1",
        "coll_tuned_allreduce_algorithm": str(ALGORITHMS[name]),
        "coll_tuned_allreduce_algorithm_segmentsize": str(_SEGMENT_BYTES),
    }
    return Variant(name=name, settings=settings)


def eager(name: str, vector_bytes: int) -> Variant:
    """One algorithm that sends every message at once, without asking.

    Over wide areas that is what saves most: each handshake costs several delays.

    Parameters
    ----------
    name
        See `ALGORITHMS`.
    vector_bytes
        Of each rank: no message is longer.
    """
    limit_bytes = vector_bytes + _ROOM_BYTES
    settings = {
        **by_algorithm(name).settings,
        "btl_tcp_eager_limit": str(limit_bytes),
        "btl_tcp_rndv_eager_limit": str(limit_bytes),
        "btl_tcp_max_send_size": str(limit_bytes),
        # Buffers of this size, each; by default they would come in lots of 32.
        "btl_tcp_free_list_inc": "4",
    }
    return Variant(name=name + EAGER, settings=settings)


def all_variants(vector_bytes: int) -> tuple[Variant, ...]:
    """As it comes, the ring as it comes, and every algorithm eager."""
    return (
        as_it_comes(),
        by_algorithm("ring"),
        *(eager(name, vector_bytes) for name in ALGORITHMS),
    )
