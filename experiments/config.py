"""One experiment: a frozen, validated config, and the run id that follows from it."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from controller.demand import RATES
from experiments.units import parse_bytes, parse_time_ms
from testbed.errors import InputError, suggestion
from testbed.topology import built_in_topologies, load_topology
from testbed.yamlfile import read_yaml

NAMED_SCHEDULES = ("triangles", "pairs", "all-to-all", "regional")
"""Those of `controller.schedule`, which takes numpy to import; listing variables does not."""
CONFIGS_DIR = Path(__file__).parent / "configs"
REAL_CLOCK_SCALE = 1000.0
"""Scale where the config names none and the clock is real: a machine in real
time moves about a tenth of what virtual time takes its leisure for."""

_YAML_SUFFIXES = (".yaml", ".yml")
_WITHOUT_EFFECT = ("force", "guest_memory_mb", "wall_limit_s", "clock", "schedule", "topology")
"""Keys that cannot change a result, and those that `identity` spells out itself."""


def _choice(*valid: str) -> BeforeValidator:
    def check(value: object) -> object:
        if value not in valid:
            raise ValueError(f'"{value}" is not valid: {suggestion(str(value), valid)}')
        return value

    return BeforeValidator(check)


def _trees(value: object) -> object:
    # Known to the planner, which takes scipy to import: only who names trees waits for it.
    from controller.planner import TREE_FAMILIES

    if value not in TREE_FAMILIES:
        raise ValueError(f'"{value}" is not valid: {suggestion(str(value), TREE_FAMILIES)}')
    return value


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("on", "off"):
        return value.lower() == "on"
    raise ValueError(f'"{value}" is not valid: write on or off')


def _whole(low: int, high: int) -> BeforeValidator:
    def check(value: object) -> int:
        number = _number(value)
        if number != int(number) or not low <= number <= high:
            raise ValueError(f'"{value}" is not valid: write a whole number from {low} to {high}')
        return int(number)

    return BeforeValidator(check)


def _real(low: float, high: float) -> BeforeValidator:
    def check(value: object) -> float:
        number = _number(value)
        if not low <= number <= high:
            raise ValueError(f'"{value}" is not valid: write a number from {low:g} to {high:g}')
        return number

    return BeforeValidator(check)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'"{value}" is not a number')
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f'"{value}" is not a number') from None
    if number in (float("inf"), float("-inf")) or number != number:
        raise ValueError(f'"{value}" is not a finite number')
    return number


def _units(parse: Callable[[Any], float]) -> BeforeValidator:
    """Check a quantity; the unit parser's own message says what is wrong."""

    def check(value: object) -> float:
        try:
            return parse(value)
        except InputError as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(check)


def _payload(value: object) -> int:
    size = parse_bytes(value)  # type: ignore[arg-type]
    if size == 0:
        raise InputError('"0" is not valid: a stream has at least one byte')
    return size


def _named_or_file(what: str, names: Callable[[], tuple[str, ...]]) -> BeforeValidator:
    def check(value: object) -> str:
        text = str(value)
        if text in names():
            return text
        if "/" not in text and not text.endswith(_YAML_SUFFIXES):
            raise ValueError(
                f'"{text}" is not a {what}: {suggestion(text, names())} (or a YAML file)'
            )
        if not Path(text).is_file():
            raise ValueError(f'the {what} file "{text}" does not exist')
        return text

    return BeforeValidator(check)


class ExperimentConfig(BaseModel):
    """Everything that decides what a run does.

    Keys in a file are the lower-case names of the variables; sizes carry their
    unit in the text. All figures are those of the network that is emulated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schedule: Annotated[str, _named_or_file("schedule", lambda: NAMED_SCHEDULES)] = Field(
        "triangles", description=f"{', '.join(NAMED_SCHEDULES)}, or a YAML file"
    )
    clock: Annotated[Literal["virtual", "real", "auto"], _choice("virtual", "real", "auto")] = (
        Field("virtual", description="virtual, real, auto")
    )
    memory_bytes: Annotated[int, _units(parse_bytes)] = Field(
        32_000_000_000, alias="memory", description="memory per edge: 0, 200MB, 32GB"
    )
    multicast: Annotated[bool, BeforeValidator(_switch)] = Field(
        True, description="on, off: one copy leaves the sender, or one per receiver"
    )
    aggregation: Annotated[bool, BeforeValidator(_switch)] = Field(
        True, description="on, off: the edge adds the streams up, or the host does"
    )
    rounds: Annotated[int, _whole(1, 1000)] = Field(4, description="rounds to run")
    payload_bytes: Annotated[int, _units(_payload)] = Field(
        1_790_000_000, alias="payload", description="bytes of one stream on the wire: 1.79GB"
    )
    scale: Annotated[float, _real(1, 1_000_000)] = Field(
        100.0, description="divides rates, payload and memory (real clock: 1000)"
    )
    seed: Annotated[int, _whole(0, 2**32 - 1)] = Field(1, description="of all randomness")
    topology: Annotated[str, _named_or_file("topology", built_in_topologies)] = Field(
        "nine-cities", description="a name, or a YAML file"
    )
    trees: Annotated[str, BeforeValidator(_trees)] = Field(
        "best", description="how multicast trees are laid"
    )

    rates: Annotated[str, _choice(*RATES)] = Field(
        "common", description=f"how senders pace: {', '.join(RATES)}"
    )

    mtu_bytes: Annotated[int, _whole(576, 9216)] = Field(9000, description="of every link")
    burst_datagrams: Annotated[int, _whole(1, 7)] = Field(4, description="sent per system call")
    fifo_datagrams: Annotated[int, _whole(1, 4096)] = Field(
        12, description="the chip's FIFO, per stream, beside the memory"
    )
    timeout_ms: Annotated[float, _units(parse_time_ms)] | None = Field(
        None, description="a sum leaves the aggregator after this; null: the planned round time"
    )
    collision: Annotated[
        Literal["evict-old", "forward-new"], _choice("evict-old", "forward-new")
    ] = Field("evict-old", description="evict-old, forward-new")
    hash: Annotated[Literal["mod", "mix"], _choice("mod", "mix")] = Field(
        "mod", description="mod, mix: how a block finds its slot"
    )
    jitter_us: Annotated[float, _real(0, 10_000)] = Field(
        5.0, description="seeded jitter of each burst's send time"
    )
    controller: Annotated[Literal["ryu", "os-ken"], _choice("ryu", "os-ken")] = Field(
        "ryu", description="ryu, os-ken"
    )
    force: Annotated[bool, BeforeValidator(_switch)] = Field(
        False, description="run what the planner refuses"
    )
    guest_memory_mb: Annotated[int, _whole(512, 1_000_000)] = Field(
        4096, description="memory of the virtual machine"
    )
    wall_limit_s: Annotated[float, _real(1, 1_000_000)] = Field(
        1800.0, description="wall time after which a run is stopped"
    )
    tolerance_percent: Annotated[float, _real(0.001, 100)] = Field(
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
        return self.schedule if self.schedule in NAMED_SCHEDULES else Path(self.schedule).stem

    @property
    def schedule_file(self) -> Path | None:
        """The schedule's file, if it is not a named one."""
        return None if self.schedule in NAMED_SCHEDULES else Path(self.schedule)

    def resolved(self) -> dict[str, object]:
        """Every key with its value, as a config file would hold it."""
        return self.model_dump(mode="json", by_alias=True)


def identity(config: ExperimentConfig) -> str:
    """Canonical JSON of everything that can change a result.

    Topology and schedule files enter with their content, not with their path or
    their comments, so that the same experiment has the same id on any machine.
    """
    values = {k: v for k, v in config.resolved().items() if k not in _WITHOUT_EFFECT}
    values["clock"] = config.clock
    values["topology"] = load_topology(config.topology).model_dump(mode="json")
    file = config.schedule_file
    values["schedule"] = read_yaml(file).data if file else config.schedule
    return json.dumps(values, sort_keys=True, separators=(",", ":"), default=str)


def run_prefix(config: ExperimentConfig) -> str:
    """``<schedule>-<8 hexadecimal digits>``: the run id without its repetition."""
    digest = hashlib.sha256(identity(config).encode()).hexdigest()
    return f"{config.schedule_name}-{digest[:8]}"
