"""Topologies as users of the published synthesiser write them.

A first line with the number of nodes, a header ``Src,Dest,Latency (ns),Bandwidth (GB/s)``, then
a directed link per line. A GB counts as 2^30 bytes, as that program does.
"""

import csv
import io
from pathlib import Path

from controller.collectives.network import LinkSpec, Network, Node, make_network
from testbed.errors import InputError

HEADER = ("Src", "Dest", "Latency (ns)", "Bandwidth (GB/s)")
GIB_PER_S = (1 << 30) / 1e6
"""In bytes per µs."""

_MAX_NODES = 65536
_NS_PER_US = 1e3


def read_csv_network(path: Path) -> Network:
    """Read a network from a CSV file.

    Raises
    ------
    InputError
        The file cannot be read, or a line is wrong: it names the line and the reason.
    """
    try:
        return parse_csv_network(path.read_text(encoding="utf-8"), str(path), path.stem)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a UTF-8 text file") from error


def parse_csv_network(text: str, where: str, name: str) -> Network:
    """Read a network from the text of a CSV file; see `read_csv_network`.

    Parameters
    ----------
    text
        The file's.
    where
        What messages call the file.
    name
        The network's.
    """
    try:
        rows = [
            (number, [cell.strip() for cell in row])
            for number, row in enumerate(csv.reader(io.StringIO(text)), 1)
            if any(cell.strip() for cell in row)
        ]
    except csv.Error as error:
        raise InputError(f"{where}: not CSV: {error}") from error
    if len(rows) < 3:
        raise InputError(f"{where}: expected the number of nodes, a header, and links")
    count = _count(f"{where}:{rows[0][0]}", rows[0][1])
    if tuple(cell.lower() for cell in rows[1][1]) != tuple(cell.lower() for cell in HEADER):
        raise InputError(f"{where}:{rows[1][0]}: expected the header {','.join(HEADER)}")
    links = [_link(f"{where}:{number}", cells, count) for number, cells in rows[2:]]
    return make_network(name, [Node(str(i)) for i in range(count)], links)


def write_csv_network(network: Network) -> str:
    """Text of a CSV file with a network's links; names and abilities of nodes are not kept."""
    lines = [str(len(network.nodes)), ",".join(HEADER)]
    for k in range(network.links):
        latency_ns = float(network.latency_ps[k]) / 1e3
        rate = float(network.bytes_per_us[k]) / GIB_PER_S
        lines.append(f"{network.src[k]},{network.dst[k]},{latency_ns!r},{rate!r}")
    return "\n".join(lines) + "\n"


def _count(where: str, cells: list[str]) -> int:
    if len(cells) != 1 or not cells[0].isdecimal() or not 2 <= int(cells[0]) <= _MAX_NODES:
        found = ",".join(cells)[:40]
        raise InputError(f'{where}: expected the number of nodes, 2 to {_MAX_NODES}, not "{found}"')
    return int(cells[0])


def _link(where: str, cells: list[str], count: int) -> LinkSpec:
    if len(cells) != len(HEADER):
        raise InputError(f"{where}: expected {len(HEADER)} values, found {len(cells)}")
    for cell in cells[:2]:
        if not cell.isdecimal() or int(cell) >= count:
            raise InputError(f'{where}: "{cell[:40]}" is no node: nodes are 0 to {count - 1}')
    numbers = []
    for name, cell in zip(HEADER[2:], cells[2:], strict=True):
        try:
            numbers.append(float(cell))
        except ValueError as error:
            raise InputError(f'{where}: {name}: "{cell[:40]}" is not a number') from error
    latency_ns, rate = numbers
    return LinkSpec(int(cells[0]), int(cells[1]), latency_ns / _NS_PER_US, rate * GIB_PER_S, where)
