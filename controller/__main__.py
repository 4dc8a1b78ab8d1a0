"""Runs the controller: ``python -m controller --plan plan.json --control SOCKET``."""

import argparse
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from controller.framework import FRAMEWORKS, load
from testbed.errors import CliquenetError, MachineError
from testbed.privileges import Capability, keep_only


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the controller until it is told to stop; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m controller", description=__doc__)
    parser.add_argument("--framework", default=FRAMEWORKS[0], help=" or ".join(FRAMEWORKS))
    parser.add_argument("--port", type=int, default=6653, help="TCP port on 127.0.0.1")
    parser.add_argument("--plan", type=Path, required=True, help="plan.json")
    parser.add_argument("--control", type=Path, required=True, help="Unix socket to report on")
    parser.add_argument("--on-link-down", choices=("reroute", "ignore"), default="reroute")
    parser.add_argument("--start-ns", type=int, help="start of round 0, if it is known already")
    options = parser.parse_args(arguments)
    try:
        framework = load(options.framework)
        # After load: it replaces the sockets that these modules use.
        from controller.app import Application
        from controller.control_channel import ControlChannel
        from controller.plan import read_plan

        plan = read_plan(options.plan)
        check_port(options.port)
        keep_only((Capability.DAC_OVERRIDE,))  # any user could do what it does with the network
        channel = ControlChannel(options.control)
        Application(
            plan,
            channel,
            framework,
            on_link_down=options.on_link_down,
            start_ns=options.start_ns,
        ).run(options.port)
    except CliquenetError as error:
        print(error, file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130
    return 0


def check_port(port: int) -> None:
    """Refuse a port that cannot be listened on.

    Raises
    ------
    MachineError
        It is taken, by whom if that can be found out.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            owner = port_owner(port)
            reason = f"taken by {owner}" if owner else error.strerror
            raise MachineError(f"port {port} on 127.0.0.1 cannot be used: {reason}") from error


def port_owner(port: int) -> str:
    """Name and process id of whoever listens on a TCP port, or nothing."""
    listening = "0A"
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == listening and int(fields[1].rpartition(":")[2], 16) == port:
            inodes.add(f"socket:[{fields[9]}]")
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(descriptor.readlink()) in inodes:
                process = descriptor.parent.parent
                return f"{(process / 'comm').read_text().strip()} (process {process.name})"
        except OSError:
            continue
    return ""


if __name__ == "__main__":
    sys.exit(main())
