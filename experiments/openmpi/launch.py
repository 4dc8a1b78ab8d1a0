"""How Open MPI is started on the emulated hosts: its arguments, and its way into them.

``mpirun`` starts a daemon on each host by a "remote shell". Ours goes into the host's network
namespace and gives the host its name; from then on everything, the daemons' own talk included,
goes through the emulated network.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.nodes import PREFIX_BITS

PROGRAM = "orterun"
_NETWORK = f"10.0.0.0/{PREFIX_BITS}"
_REASON_CHARACTERS = 300


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


def command(
    hosts: Sequence[str], settings: Mapping[str, str], agent: Path, module: Sequence[str]
) -> list[str]:
    """Arguments that start one rank on each host, in their order, with TCP as the only way.

    Parameters
    ----------
    hosts
        Names that the remote shell knows.
    settings
        Parameters of Open MPI beside those that the emulated network takes.
    agent
        The remote shell.
    module
        Python module that each rank runs, and its arguments.
    """
    parameters = {
        "plm": "rsh",
        "plm_rsh_agent": str(agent),
        "plm_rsh_no_tree_spawn": "1",  # else hosts would start each other
        "oob_tcp_if_include": _NETWORK,
        "btl": "tcp,self",
        "btl_tcp_if_include": _NETWORK,
        "pml": "ob1",
        "reachable": "weighted",
        "mpi_yield_when_idle": "1",
        **settings,
    }
    return [
        PROGRAM,
        "--allow-run-as-root",
        *("--host", ",".join(hosts), "-np", str(len(hosts)), "--map-by", "node"),
        *(word for name, value in parameters.items() for word in ("--mca", name, value)),
        *(sys.executable, "-m", *module),
    ]


def reason(output: str) -> str:
    """What Open MPI said first when it failed: one sentence, without its frames and advice."""
    lines = (line.strip() for line in output.splitlines())
    said = " ".join(line for line in lines if line.strip("-"))
    return said.partition(". ")[0][:_REASON_CHARACTERS].rstrip(".:") or "it said nothing"
