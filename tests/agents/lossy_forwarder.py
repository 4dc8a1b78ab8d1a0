"""A hop that loses datagrams between agents over loopback, for tests without root."""

import os
import random
import select
import socket
from dataclasses import dataclass
from typing import Literal

from agent_processes import LoopbackAddressing

from agents.context import AgentContext, Endpoint

_ASIDE = 2  # an aggregator's port is its island's too
Leg = Literal["last hop", "wide area"]


class ForwardedAddressing(LoopbackAddressing):
    """Addresses as one agent sees them: those on the far side of a leg are the hop's."""

    def __init__(self, leg: Leg, role: str, city: int) -> None:
        super().__init__()
        self._last_hop = leg == "last hop"
        self._role = role
        self._city = city

    def island(self, city: int) -> Endpoint:
        own = self._role == "island" and city == self._city
        last_hop = self._role == "aggregator"
        return self._hop(super().island(city), city, last_hop == self._last_hop and not own)

    def aggregator(self, city: int) -> Endpoint:
        return self._hop(
            super().aggregator(city),
            city,
            self._role == "island" and not self._last_hop,
            aside=_ASIDE,
        )

    def control(self, city: int) -> Endpoint:
        return self._hop(super().control(city), city, self._role == "island" and self._last_hop)

    def _hop(self, to: Endpoint, city: int, forwarded: bool, aside: int = 0) -> Endpoint:
        return (f"127.1.{city + 1}.3", to[1] + aside) if forwarded else to


@dataclass(frozen=True)
class Forwarder:
    """Loses, repeats and swaps datagrams on their way to one city."""

    loss: float
    duplication: float = 0.0
    reordering: float = 0.0
    seed: int = 1

    def run(self, ctx: AgentContext) -> int:
        """Forward until the process is killed or its parent is gone."""
        inside, city = ctx.addresses, ctx.city
        chance = random.Random(self.seed * 1000 + city)  # noqa: S311
        ways: dict[socket.socket, Endpoint] = {}
        for to, aside in (
            (inside.island(city), 0),
            (inside.control(city), 0),
            (inside.aggregator(city), _ASIDE),
        ):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            sock.bind((f"127.1.{city + 1}.3", to[1] + aside))
            ways[sock] = to
        kept: list[tuple[socket.socket, bytes]] = []
        parent = os.getppid()
        while os.getppid() == parent:
            for sock in select.select(list(ways), [], [], 0.05)[0]:
                datagram = sock.recv(65536)
                if chance.random() < self.loss:
                    continue
                if chance.random() < self.reordering:
                    kept.append((sock, datagram))
                    continue
                sock.sendto(datagram, ways[sock])
                if chance.random() < self.duplication:
                    sock.sendto(datagram, ways[sock])
                while kept:
                    late, old = kept.pop()
                    late.sendto(old, ways[late])
        return 0
