"""Names, addresses and port numbers of the emulated network.

Pure functions of a city's index in its topology, so that the network builder,
the controller and the agents agree without talking to each other.
"""

import ipaddress

ISLAND_PORT = 1
AGGREGATOR_PORT = 2
FIRST_LINK_PORT = 3
STREAM_UDP_PORT = 5000
CONTROL_UDP_PORT = 5001
FIRST_PATH_UDP_PORT = 6000
"""Source port of what takes the path with tag 0; tag 1 has the next one, and so on."""
MAX_INTERFACE_NAME = 15
MAX_CITIES = 254


def dpid(city: int) -> int:
    """OpenFlow datapath id of a city's switch: 1..N (0 would become random)."""
    return city + 1


def island_ip(city: int) -> str:
    """IPv4 address of a city's island host."""
    return f"10.0.{city + 1}.1"


def aggregator_ip(city: int) -> str:
    """IPv4 address of a city's aggregator host."""
    return f"10.0.{city + 1}.2"


def island_mac(city: int) -> str:
    """MAC address (locally administered) of a city's island host."""
    return f"02:00:00:00:{city + 1:02x}:01"


def aggregator_mac(city: int) -> str:
    """MAC address (locally administered) of a city's aggregator host."""
    return f"02:00:00:00:{city + 1:02x}:02"


def switch_mac(city: int, port: int) -> str:
    """MAC address (locally administered) of one switch port."""
    return f"02:00:01:{port:02x}:{city + 1:02x}:00"


def group_ip(round_index: int, sender: int) -> str:
    """Multicast address (RFC 2365, administratively scoped) of one sender in one round.

    Each round has its own addresses, so that the trees of round k+1 can be
    installed while the packets of round k are still on the wire.
    """
    return f"239.{round_index >> 8 & 0xFF}.{round_index & 0xFF}.{sender + 1}"


def group_id(round_index: int, sender: int, visit: int = 0) -> int:
    """OpenFlow group id, tagged with the round: old and new trees coexist.

    A switch that a stream passes more than once holds a group for each visit.
    """
    return (visit << 24 | round_index << 8 | sender) + 1


def sender_of(ip: str) -> int:
    """City index of an island or aggregator address."""
    return ipaddress.IPv4Address(ip).packed[2] - 1
