"""What makes two experiments the same: the run id, from everything that can change a result."""

import hashlib
import json

from experiments.config import COLLECTIVES, ExperimentConfig
from testbed.topology import load_topology
from testbed.yamlfile import read_yaml

_WITHOUT_EFFECT = (
    *("force", "guest_memory_mb", "wall_limit_s", "lead_s"),
    *("clock", "schedule", "topology"),
)
"""Keys that cannot change a result, and those that `identity` spells out itself."""

_OF_COLLECTIVES = ("chunks", "model", "replan_ms")
"""Keys that change nothing where streams are sent."""
_OF_TRAINING = ("compute_ms", "loop")
"""Keys that change nothing without training."""

_OF_EVENTS = ("on_link_down", "on_fault")
"""Keys that change nothing where nothing happens."""


def identity(config: ExperimentConfig) -> str:
    """Canonical JSON of everything that can change a result.

    Topology and schedule files enter with their content, not with their path or
    their comments, so that the same experiment has the same id on any machine.
    """
    idle = set(_WITHOUT_EFFECT)
    if config.compute_ms is None:
        idle.update(_OF_TRAINING)
    if config.schedule not in COLLECTIVES:
        idle.update(_OF_COLLECTIVES if config.compute_ms else (*_OF_COLLECTIVES, "release"))
    if not config.events:
        idle.update(_OF_EVENTS)
    values = {k: v for k, v in config.resolved().items() if k not in idle}
    values["clock"] = config.clock
    values["topology"] = load_topology(config.topology).model_dump(mode="json")
    file = config.schedule_file
    values["schedule"] = read_yaml(file).data if file else config.schedule
    return json.dumps(values, sort_keys=True, separators=(",", ":"), default=str)


def run_prefix(config: ExperimentConfig) -> str:
    """``<schedule>-<8 hexadecimal digits>``: the run id without its repetition."""
    digest = hashlib.sha256(identity(config).encode()).hexdigest()
    return f"{config.schedule_name}-{digest[:8]}"
