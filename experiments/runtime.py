"""What the emulation needs to know beside the plan: the hardware and the clock."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from agents.names import Collision, ElementType, EngineName, Hash, MemoryModel
from experiments.faults import Fault, OnFault, OnLinkDown
from experiments.impairments import LinkImpairment
from testbed.jsonmodel import read_model
from testbed.limits import Limits
from testbed.topology import Frozen


class Runtime(Frozen):
    """Settings of one run, written by the host and read inside the emulation."""

    clock: Literal["virtual", "real"]
    seed: int = Field(ge=0)
    mtu_bytes: int
    burst_datagrams: int
    fifo_datagrams: int
    timeout_ms: float
    collision: Collision
    hash: Hash
    jitter_us: float
    controller: str
    ways: int = 1
    memory_model: MemoryModel = "accumulate"
    dtype: ElementType = "i32"
    ordered: bool = False
    engine: EngineName = "native"
    resend_ms: float = 0.0
    repair: bool = False
    replan_ms: float = 100.0
    impairments: tuple[LinkImpairment, ...] = ()
    events: tuple[Fault, ...] = ()
    lead_s: float = 2.0
    on_link_down: OnLinkDown = "reroute"
    on_fault: OnFault = "continue"
    verify: bool = False
    """Measure the network in full, and run no rounds."""
    limits: Limits = Limits()
    """Those that are not given are the clock's."""

    def after_building_for(self, built_s: float) -> "Runtime":
        """With a lead for a machine that took so long to build the network.

        In real time a slow or busy machine takes long to start the agents as well; no
        longer than that, for the network is the greater part (rule: ours).
        """
        if self.clock == "virtual" or built_s <= self.lead_s:
            return self
        return self.model_copy(update={"lead_s": built_s})

    def write(self, path: Path) -> None:
        """Write the settings as JSON."""
        path.write_text(self.model_dump_json(indent=1) + "\n")


def read_runtime(path: Path) -> Runtime:
    """Read what `Runtime.write` wrote; raises `InputError` if it does not fit."""
    return read_model(Runtime, path)
