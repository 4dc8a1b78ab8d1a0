"""How Open MPI is started on the emulated hosts: its arguments, and its way into them.

``mpirun`` starts a daemon on each host by a "remote shell". Ours goes into the host's network
namespace and gives the host its name; from then on everything, the daemons' own talk included,
goes through the emulated network.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from testbed.nodes import PREFIX_BITS

ALGORITHMS: Mapping[str, int] = MappingProxyType(
    {
        "default": 0,
        "nonoverlapping": 2,
        "recursive-doubling": 3,
        "ring": 4,
        "segmented-ring": 5,
        "rabenseifner": 6,
    }
)
"""Values of ``coll_tuned_allreduce_algorithm`` (Open MPI 4.1); 0 leaves the choice to it."""

_NETWORK = f"10.0.0.0/{PREFIX_BITS}"


def agent_script(namespaces: Mapping[str, str]) -> str:
    """The remote shell, as a shell script: ``agent HOST COMMAND``.

    Parameters
    ----------
    namespaces
        Host to the path of its network namespace.
    """
    cases = "".join(f"  {host}) namespace={path} ;;\n" for host, path in namespaces.items())
    return f"""#!/bin/sh
host=$1; shift
case $host in
{cases}  *) echo "there is no host $host" >&2; exit 1 ;;
esac
exec nsenter --net="$namespace" unshare --uts \\
  sh -c 'echo "$1" > /proc/sys/kernel/hostname; eval "exec $2"' sh "$host" "$*"
"""


def mpirun(
    hosts: Sequence[str], algorithm: str, agent: Path, program: Sequence[str]
) -> list[str]:
    """Arguments that start one rank on each host, in their order.

    TCP alone, on the emulated network; the tuned all-reduce, by the algorithm named.
    """
    settings = {
        "plm": "rsh",
        "plm_rsh_agent": str(agent),
        "plm_rsh_no_tree_spawn": "1",  # else hosts would start each other
        "oob_tcp_if_include": _NETWORK,
        "btl": "tcp,self",
        "btl_tcp_if_include": _NETWORK,
        "pml": "ob1",
        "reachable": "weighted",
        "mpi_yield_when_idle": "1",
        "coll_tuned_use_dynamic_rules": "1",
        "coll_tuned_allreduce_algorithm": str(ALGORITHMS[algorithm]),
    }
    return [
        "orterun",
        "--allow-run-as-root",
        *("--host", ",".join(hosts), "-np", str(len(hosts)), "--map-by", "node"),
        *(word for name, value in settings.items() for word in ("--mca", name, value)),
        *(sys.executable, "-m", *program),
    ]
