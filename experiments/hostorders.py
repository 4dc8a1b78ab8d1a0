"""The run's ends of the socket pairs to the hosts of a collective: orders out, replies in."""

import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agents.orders import Message, Orders
from testbed.processes import Supervisor

REPLY_LIMIT_S = 5.0


class HostOrders:
    """Orders to all hosts.

    Parameters
    ----------
    ends
        The run's end of each pair, by city code.
    supervisor
        Waits at them.
    done
        Called with a host's reply that it has done all its steps.
    """

    def __init__(
        self,
        ends: Mapping[str, socket.socket],
        supervisor: Supervisor,
        done: Callable[[str, Message], None],
    ) -> None:
        self._supervisor = supervisor
        self._done = done
        self._hosts = {code: Orders(end) for code, end in ends.items()}
        self._replies: dict[str, Message] = {}
        for code, host in self._hosts.items():
            supervisor.watch_file(host.fileno(), partial(self._receive, code))

    def tell(self, code: str, **order: Any) -> None:
        """Give one host an order."""
        self._hosts[code].send(**order)

    def tell_all(self, **order: Any) -> None:
        """Give every host an order."""
        for code in self._hosts:
            self.tell(code, **order)

    def ask(self, order: str, **details: Any) -> dict[str, frozenset[int]]:
        """Ask every host which transfers have taken effect there; by city code.

        Raises
        ------
        CliquenetError
            A host does not reply, or has ended.
        """
        self._replies.clear()
        self.tell_all(order=order, **details)
        self._supervisor.wait_until(
            lambda: len(self._replies) == len(self._hosts), REPLY_LIMIT_S, f"hosts' {order}"
        )
        return {code: frozenset(reply["applied"]) for code, reply in self._replies.items()}

    def _receive(self, code: str) -> None:
        host = self._hosts[code]
        try:
            messages = host.receive()
        except ConnectionError:  # the supervisor hears of its end and judges it
            self._supervisor.unwatch_file(host.fileno())
            return
        for message in messages:
            if message["reply"] == "done":
                self._done(code, message)
            else:
                self._replies[code] = message
