"""Measures a network in full and says whether to believe what runs on it.

The network of a config is built as for an experiment, with its controller; every link
and path is measured, nothing is sent over it beside the probes.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.config import ExperimentConfig
from experiments.identity import run_prefix
from experiments.planning import plan_experiment
from experiments.results import VERIFIED, amend_manifest, create_run, write_json
from experiments.run import (
    ProgressFactory,
    choose_kernel,
    make_runtime,
    record_start,
    run_program,
    state_of,
)
from experiments.trust import Trust, read_trust
from testbed.findings import Finding, judge, reasons
from testbed.paths import give_to_caller
from testbed.preflight import choose_clock

_NETWORK_KEYS = (
    "topology",
    "clock",
    "scale",
    "seed",
    "mtu_bytes",
    "controller",
    "limits",
    "guest_memory_mb",
    "wall_limit_s",
)
"""Keys of a config that decide what its network is."""


@dataclass(frozen=True)
class Verification:
    """A network as measured, and what is wrong with it."""

    folder: Path
    trust: Trust
    findings: tuple[Finding, ...]
    times: dict[str, float]
    """Wall seconds of each step until the network was up."""

    def as_dict(self) -> dict[str, Any]:
        """What ``summary.json`` holds."""
        fidelity = self.trust.fidelity
        return {
            "run_id": self.folder.name,
            "verdict": judge(self.findings),
            "reasons": reasons(self.findings),
            **self.trust.entries(),
            "network_up_wall_s": self.times["total_wall_s"],
            "links": [{**link.model_dump(), **link.errors()} for link in fidelity.links],
            "paths": [{**p.model_dump(), "error_us": p.error_us} for p in fidelity.paths],
        }


def verify_network(
    config: ExperimentConfig, results_dir: Path, *, progress: ProgressFactory
) -> Verification:
    """Build the network of a config and measure it; what it runs is left out.

    Parameters
    ----------
    config
        Its keys about network, clock and limits count.
    results_dir
        Folder of all runs; files go to ``verify/<topology>-<digest>-<repetition>``.
    progress
        Makes the context manager that shows a step.

    Raises
    ------
    CliquenetError
        The network could not be built or measured.
    """
    clock, why = choose_clock(config.clock)
    config = network_of(config).at_clock(clock)
    plan = plan_experiment(config)
    kernel = choose_kernel(clock)
    prefix = f"{plan.topology.name}-{run_prefix(config).rpartition('-')[2]}"
    folder = create_run(results_dir / VERIFIED, config, prefix)
    with state_of(folder):
        runtime = make_runtime(config, plan, folder).model_copy(update={"verify": True})
        record_start(folder, config, plan, runtime, kernel, why)
        with progress(f"measuring {plan.topology.name}") as step:
            times = run_program("experiments.emulate", config, folder, kernel, step)
    trust = read_trust(folder)
    findings = tuple(trust.findings(config.limits.at(clock)))
    made = Verification(folder, trust, findings, times)
    summary = made.as_dict()
    write_json(folder / "summary.json", summary)
    amend_manifest(folder, verdict=summary["verdict"])
    give_to_caller(folder)
    return made


def network_of(config: ExperimentConfig) -> ExperimentConfig:
    """A config with the same network that every topology can be planned for, in no time."""
    given = {key: getattr(config, key) for key in _NETWORK_KEYS}
    if "scale" not in config.model_fields_set:
        del given["scale"]
    return ExperimentConfig(
        schedule="all-to-all", trees="shortest-path", rounds=1, resend_ms=0.0, **given
    )
