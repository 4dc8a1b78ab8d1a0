"""The one module that touches Ryu, or os-ken, its maintained fork.

Both are the same under different names. `load` picks one, puts eventlet under it
and leaves out what a controller without HTTP does not need.
"""

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, Protocol

from testbed.errors import InputError, MachineError, suggestion

_PACKAGES = {"ryu": ("ryu", "RyuApp"), "os-ken": ("os_ken", "OSKenApp")}
FRAMEWORKS = tuple(_PACKAGES)
_OPENFLOW_13 = 4


class SwitchEvents(Protocol):
    """What a controller application wants to hear."""

    def switch_up(self, datapath: Any) -> None:
        """A switch finished its handshake."""

    def switch_down(self, datapath: Any) -> None:
        """A switch went away."""

    def barrier(self, datapath: Any, xid: int) -> None:
        """A switch answered a barrier."""

    def refused(self, datapath: Any, reason: str) -> None:
        """A switch sent an error message."""

    def ports_changed(self, datapath: Any) -> None:
        """A switch's ports are not what they were."""

    def groups(self, message: Any) -> None:
        """A switch sent a part of the list of its groups."""

    def flows(self, message: Any) -> None:
        """A switch sent a part of the list of its flows."""


class Framework:
    """A loaded framework.

    Parameters
    ----------
    package
        Its top package, ``ryu`` or ``os_ken``.
    base
        Name of its application class.
    """

    def __init__(self, package: str, base: str) -> None:
        self._package = package
        self._manager: Any = self._module("base.app_manager")
        self._base = getattr(self._manager, base)
        self._hub: Any = self._module("lib.hub")

    def spawn(self, function: Callable[[], None]) -> None:
        """Run a function in a green thread; an exception in it ends the process."""
        self._hub.spawn(_fatal(function))

    def sleep(self, seconds: float) -> None:
        """Let others run for a while."""
        self._hub.sleep(max(0.0, seconds))

    def listen(self, port: int, events: SwitchEvents) -> None:
        """Start listening for switches on 127.0.0.1; returns at once."""
        config: Any = self._module("cfg").CONF
        arguments = ["--ofp-listen-host=127.0.0.1", f"--ofp-tcp-listen-port={port}"]
        config(args=arguments, project="cliquenet", default_config_files=[])
        manager = self._manager.AppManager.get_instance()
        manager.load_apps([f"{self._package}.controller.ofp_handler"])
        manager.applications_cls["cliquenet"] = self._application(events)
        manager.instantiate_apps()

    def _application(self, events: SwitchEvents) -> type:
        """The framework's application class, which only passes events on."""
        handler: Any = self._module("controller.handler")
        event: Any = self._module("controller.ofp_event")
        main, dead = handler.MAIN_DISPATCHER, handler.DEAD_DISPATCHER
        early = [handler.HANDSHAKE_DISPATCHER, handler.CONFIG_DISPATCHER]

        class Application(self._base):  # type: ignore[misc, name-defined]
            OFP_VERSIONS = (_OPENFLOW_13,)

            @handler.set_ev_cls(event.EventOFPStateChange, [main, dead])  # type: ignore[untyped-decorator]
            @_fatal
            def state(self, event: Any) -> None:
                if event.state == main:
                    events.switch_up(event.datapath)
                elif event.datapath.id is not None:
                    events.switch_down(event.datapath)

            @handler.set_ev_cls(event.EventOFPBarrierReply, main)  # type: ignore[untyped-decorator]
            @_fatal
            def barrier(self, event: Any) -> None:
                events.barrier(event.msg.datapath, event.msg.xid)

            @handler.set_ev_cls(event.EventOFPPortStateChange, main)  # type: ignore[untyped-decorator]
            @_fatal
            def ports(self, event: Any) -> None:
                events.ports_changed(event.datapath)

            @handler.set_ev_cls(event.EventOFPGroupDescStatsReply, main)  # type: ignore[untyped-decorator]
            @_fatal
            def groups(self, event: Any) -> None:
                events.groups(event.msg)

            @handler.set_ev_cls(event.EventOFPFlowStatsReply, main)  # type: ignore[untyped-decorator]
            @_fatal
            def flows(self, event: Any) -> None:
                events.flows(event.msg)

            @handler.set_ev_cls(event.EventOFPErrorMsg, [*early, main])  # type: ignore[untyped-decorator]
            @_fatal
            def error(self, event: Any) -> None:
                events.refused(event.msg.datapath, describe_error(event.msg))

        return Application

    def _module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self._package}.{name}")


def load(name: str) -> Framework:
    """Import a framework; do this before anything opens a socket.

    Parameters
    ----------
    name
        ``ryu`` or ``os-ken``.

    Raises
    ------
    InputError
        Unknown name.
    MachineError
        It is not installed.
    """
    if name not in _PACKAGES:
        raise InputError(f'unknown controller framework "{name}"; {suggestion(name, FRAMEWORKS)}')
    package, base = _PACKAGES[name]
    os.environ["EVENTLET_NO_GREENDNS"] = "yes"  # no names are looked up
    os.environ["OSKEN_HUB_TYPE"] = "eventlet"  # one model of concurrency for both
    sys.modules["OpenSSL"] = None  # type: ignore[assignment]  # not used, and often broken
    try:
        import eventlet

        eventlet.monkey_patch()
        sys.modules.setdefault(f"{package}.app.wsgi", _no_web_server(package))
        return Framework(package, base)
    except ImportError as error:
        raise MachineError(
            f"the controller framework {name} is not installed ({error}); run `sudo make setup`"
        ) from error


def describe_error(message: Any) -> str:
    """The type and code of an OpenFlow error message, by name where it has one."""
    ofproto = message.datapath.ofproto
    try:
        kind = ofproto.ofp_error_type_to_str(message.type)
        code = ofproto.ofp_error_code_to_str(message.type, message.code)
    except (AttributeError, KeyError, ValueError):
        return f"error type {message.type}, code {message.code}"
    return f"{kind}, {code}"


def _fatal(function: Callable[..., None]) -> Callable[..., None]:
    """Make an exception end the process: frameworks would log it and go on without."""

    @wraps(function)
    def guarded(*arguments: Any) -> None:
        try:
            function(*arguments)
        except Exception:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    return guarded


def _no_web_server(package: str) -> ModuleType:
    """Stand-in for the framework's web server, which does not load with new eventlets."""
    module = ModuleType(f"{package}.app.wsgi")
    module.start_service = lambda manager: None  # type: ignore[attr-defined]
    return module
