"""Which engine adds the streams up."""

from collections.abc import Callable

from agents.aggregator.engine import Engine, EngineSettings, ReferenceEngine
from agents.aggregator.native import NativeEngine
from agents.aggregator.ring import ResendRing
from agents.names import EngineName
from agents.records import Recorder


def make_engine(
    kind: EngineName,
    settings: EngineSettings,
    ring: ResendRing,
    send: Callable[[], None],
    recorder: Recorder,
) -> Engine:
    """Make the engine of a run; ``native`` in C, or the ``reference`` in numpy.

    Raises
    ------
    InputError
        The settings contradict each other.
    MachineError
        The kernel of the native engine cannot be compiled or loaded.
    """
    make = NativeEngine if kind == "native" else ReferenceEngine
    return make(settings, ring, send, recorder)
