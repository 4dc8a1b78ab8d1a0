"""One experiment: a frozen, validated config, and the run id that follows from it."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from agents.names import Collision, ElementType, EngineName, Hash, MemoryModel
from controller.demand import MEMORY_MODELS, RATES
from controller.training import Loop
from experiments.faults import FAULTS, Fault, OnFault, OnLinkDown
from experiments.fields import (
    choice,
    entries,
    group,
    named_or_file,
    number_of,
    real,
    switch,
    units,
    whole,
)
from experiments.impairments import MAX_JITTER_US, LinkImpairment
from experiments.units import parse_bytes, parse_time_ms
from testbed.errors import InputError, suggestion
from testbed.impairment import Impairment
from testbed.limits import Limits
from testbed.topology import built_in_topologies

NAMED_SCHEDULES = ("triangles", "pairs", "all-to-all", "regional")
"""Those of `controller.schedule`, which takes numpy to import; listing variables does not."""
CHECKED_TYPES = tuple(name for name in get_args(ElementType) if name != "bf16")
"""Elements whose sums can be compared bit by bit; bf16 holds none of several islands."""
IN_NETWORK = "in-network"
"""The schedule in which aggregators in the network form one sum, and multicast brings it back."""
COLLECTIVES: Mapping[str, str] = MappingProxyType(
    {
        "ring": "ring",
        "halving-doubling": "halving-doubling",
        "hierarchical": "hierarchical",
        "parameter-server": "parameter-server",
        "double-binary-tree": "double-binary-tree",
        "direct": "direct",
        "tacos": "synthesised",
        IN_NETWORK: "multicast-aggregation",
    }
)
"""Schedules of one all-reduce of the islands' hosts, and their algorithms."""
CONFIGS_DIR = Path(__file__).parent / "configs"
REAL_CLOCK_SCALE = 1000.0
"""Scale where the config names none and the clock is real: a machine in real
time moves about a tenth of what virtual time takes its leisure for."""
LEAD_S: Mapping[str, float] = MappingProxyType({"virtual": 2.0, "real": 10.0})
"""From the start of the agents to round 0, where the config says nothing. In virtual time
they are ready at once; in real time each takes up to half a second of a slow machine."""


def _schedules() -> tuple[str, ...]:
    return (*NAMED_SCHEDULES, *COLLECTIVES)


def _trees(value: object) -> object:
    # Known to the planner, which takes scipy to import: only who names trees waits for it.
    from controller.planner import TREE_FAMILIES

    if value not in TREE_FAMILIES:
        raise ValueError(f'"{value}" is not valid: {suggestion(str(value), TREE_FAMILIES)}')
    return value


def _elements(value: object) -> object:
    if value == "bf16":  # the aggregator adds it; an exact sum needs more than its 8 bits
        raise ValueError(
            '"bf16" cannot be checked: its 8 bits hold no exact sum of several islands; use f32'
        )
    return value


def _payload(value: object) -> int:
    size = parse_bytes(value)  # type: ignore[arg-type]
    if size == 0:
        raise InputError('"0" is not valid: a stream has at least one byte')
    return size


class ExperimentConfig(BaseModel):
    """Everything that decides what a run does.

    Keys in a file are the lower-case names of the variables; sizes carry their
    unit in the text. All figures are those of the network that is emulated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schedule: Annotated[str, named_or_file("schedule", _schedules)] = Field(
        "triangles", description=f"{', '.join(_schedules())}, or a YAML file"
    )
    clock: Annotated[Literal["virtual", "real", "auto"], choice("virtual", "real", "auto")] = Field(
        "virtual", description="virtual, real, auto"
    )
    memory_bytes: Annotated[int, units(parse_bytes)] = Field(
        32_000_000_000, alias="memory", description="memory per edge: 0, 200MB, 32GB"
    )
    multicast: Annotated[bool, BeforeValidator(switch)] = Field(
        True, description="on, off: one copy leaves the sender, or one per receiver"
    )
    aggregation: Annotated[bool, BeforeValidator(switch)] = Field(
        True, description="on, off: the edge adds the streams up, or the host does"
    )
    rounds: Annotated[int, whole(1, 1000)] = Field(4, description="rounds to run")
    payload_bytes: Annotated[int, units(_payload)] = Field(
        1_790_000_000, alias="payload", description="bytes of one stream on the wire: 1.79GB"
    )
    scale: Annotated[float, real(1, 1_000_000)] = Field(
        100.0, description="divides rates, payload and memory (real clock: 1000)"
    )
    seed: Annotated[int, whole(0, 2**32 - 1)] = Field(1, description="of all randomness")
    topology: Annotated[str, named_or_file("topology", built_in_topologies)] = Field(
        "nine-cities", description="a name, or a YAML file"
    )
    trees: Annotated[str, BeforeValidator(_trees)] = Field(
        "best", description="how multicast trees are laid"
    )

    rates: Annotated[str, choice(*RATES)] = Field(
        "common", description=f"how senders pace: {', '.join(RATES)}"
    )

    chunks: Annotated[int, whole(0, 65536)] = Field(
        0, description="of a collective between hosts: pieces of the payload; 0 chooses"
    )
    model: Annotated[Literal["pipelined", "occupancy"], choice("pipelined", "occupancy")] = Field(
        "pipelined", description="of its links: pipelined, occupancy: held until a chunk arrives"
    )
    release: Annotated[Literal["planned", "data"], choice("planned", "data")] = Field(
        "planned", description="of its sends: planned, data: not before their time, or at once"
    )
    replan_ms: Annotated[float, units(parse_time_ms)] = Field(
        100.0, description="of it when links fail: time that planning anew is given"
    )
    compute_ms: Annotated[float, units(parse_time_ms)] | None = Field(
        None, description="of training: time to compute a step; null: nothing is computed"
    )
    loop: Annotated[Loop, choice(*get_args(Loop))] = Field(
        "synchronous",
        description="synchronous, delayed, local: a step waits for the last sum, for the one "
        "before it, for none",
    )
    mtu_bytes: Annotated[int, whole(576, 9216)] = Field(9000, description="of every link")
    burst_datagrams: Annotated[int, whole(1, 7)] = Field(4, description="sent per system call")
    fifo_datagrams: Annotated[int, whole(1, 4096)] = Field(
        12, description="the chip's FIFO, per stream, beside the memory"
    )
    timeout_ms: Annotated[float, units(parse_time_ms)] | None = Field(
        None, description="a sum leaves the aggregator after this; null: the planned round time"
    )
    ways: Annotated[Literal[1, 2, 4], number_of(1, 2, 4)] = Field(
        1, description="1, 2, 4: places that a block may take in the aggregator's table"
    )
    collision: Annotated[Collision, choice(*get_args(Collision))] = Field(
        "evict-old",
        description="evict-old, forward-new, priority: what leaves where none of them is free",
    )
    hash: Annotated[Hash, choice(*get_args(Hash))] = Field(
        "mod", description="mod, mix: how a block finds its slot"
    )
    memory_model: Annotated[MemoryModel, choice(*MEMORY_MODELS)] = Field(
        "accumulate", description="accumulate, hold: one sum per block, or every stream by itself"
    )
    dtype: Annotated[ElementType, choice(*CHECKED_TYPES), BeforeValidator(_elements)] = Field(
        "i32", description=f"{', '.join(CHECKED_TYPES)}: elements of a stream"
    )
    ordered: Annotated[bool, BeforeValidator(switch)] = Field(
        False, description="on, off: add in the order of the senders; holds every stream"
    )
    engine: Annotated[EngineName, choice(*get_args(EngineName))] = Field(
        "native", description="native, reference: the aggregator's inner loop"
    )
    resend_ms: Annotated[float, units(parse_time_ms)] = Field(
        0.0, description="output kept to be sent again, out of the memory; 0: none"
    )
    repair: Annotated[bool, BeforeValidator(switch)] = Field(
        False, description="on, off: islands ask the sender for what no edge can give"
    )
    loss_percent: Annotated[float, real(0, 100)] = Field(
        0.0, description="packets lost on the last hop, from each switch to its island"
    )
    loss_burst: Annotated[float, real(1, 1e6)] | None = Field(
        None, description="mean run of lost packets there; null: independent losses"
    )
    duplicate_percent: Annotated[float, real(0, 100)] = Field(
        0.0, description="packets that arrive twice there"
    )
    reorder_percent: Annotated[float, real(0, 100)] = Field(
        0.0, description="packets that overtake the others there"
    )
    link_jitter_us: Annotated[float, real(0, MAX_JITTER_US)] = Field(
        0.0, description="the most that a packet is late there"
    )
    impairments: Annotated[tuple[LinkImpairment, ...], entries({"": LinkImpairment}, "")] = Field(
        (), description="a list of such links: link, direction, loss_percent, …"
    )
    events: Annotated[tuple[Fault, ...], entries(FAULTS, "event")] = Field(
        (), description=f"a list of faults: at_ms, event ({', '.join(FAULTS)}), …"
    )
    on_link_down: Annotated[OnLinkDown, choice(*get_args(OnLinkDown))] = Field(
        "reroute", description="reroute, ignore: what the controller does about a dead link"
    )
    on_fault: Annotated[OnFault, choice(*get_args(OnFault))] = Field(
        "continue", description="continue, fail: what a round costs that an event spoilt"
    )
    jitter_us: Annotated[float, real(0, 10_000)] = Field(
        5.0, description="seeded jitter of each burst's send time"
    )
    limits: Annotated[Limits, group(Limits)] = Field(
        Limits(), description="of the fidelity check, see below: {delay_us: 5}"
    )
    controller: Annotated[Literal["ryu", "os-ken"], choice("ryu", "os-ken")] = Field(
        "ryu", description="ryu, os-ken"
    )
    force: Annotated[bool, BeforeValidator(switch)] = Field(
        False, description="run what the planner refuses"
    )
    guest_memory_mb: Annotated[int, whole(512, 1_000_000)] = Field(
        4096, description="memory of the virtual machine"
    )
    wall_limit_s: Annotated[float, real(1, 1_000_000)] = Field(
        1800.0, description="wall time after which a run is stopped"
    )
    lead_s: Annotated[float, real(1, 3600)] | None = Field(
        None, description="from the start of the agents to round 0; null: 2, real clock: 10 or more"
    )
    late_ms: Annotated[float, real(0.001, 100_000)] = Field(
        1.0, description="real clock: 99 % of the sends may leave so late"
    )
    tolerance_percent: Annotated[float, real(0.001, 100)] = Field(
        1.0, description="how far measured T may lie from planned T"
    )

    def at_clock(self, clock: Literal["virtual", "real"]) -> "ExperimentConfig":
        """Decide the clock, and the scale that goes with it where none was given."""
        decided: dict[str, object] = {"clock": clock}
        if clock == "real" and "scale" not in self.model_fields_set:
            decided["scale"] = REAL_CLOCK_SCALE
        return self.model_copy(update=decided)

    @property
    def schedule_name(self) -> str:
        """The schedule's name; of a file, its name without folder and suffix."""
        return self.schedule if self.schedule in _schedules() else Path(self.schedule).stem

    @property
    def schedule_file(self) -> Path | None:
        """The schedule's file, if it is not a named one."""
        return None if self.schedule in _schedules() else Path(self.schedule)

    @property
    def memory_use(self) -> MemoryModel:
        """The memory model that counts: sums in order need every stream by itself."""
        return "hold" if self.ordered else self.memory_model

    @property
    def lossy_links(self) -> tuple[LinkImpairment, ...]:
        """The impairments, with that of the last hop that has keys of its own."""
        last_hop = LinkImpairment(
            link="access",
            loss_percent=self.loss_percent,
            loss_burst=self.loss_burst if self.loss_percent else None,
            duplicate_percent=self.duplicate_percent,
            reorder_percent=self.reorder_percent,
            jitter_us=self.link_jitter_us,
        )
        harmless = last_hop.thresholds() == Impairment()
        return self.impairments if harmless else (*self.impairments, last_hop)

    def resolved(self) -> dict[str, object]:
        """Every key with its value, as a config file would hold it."""
        return {**self.model_dump(mode="json", by_alias=True), "memory_model": self.memory_use}
