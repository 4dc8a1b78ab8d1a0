"""What a run's own network and machine say for it or against it: entries and findings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.results import amend_manifest, write_json
from testbed.fidelity import FIDELITY_FILE, Fidelity, check, read_fidelity
from testbed.findings import Finding, judge, reasons
from testbed.health import HEALTH_FILE, Health, check_health
from testbed.jsonmodel import read_model
from testbed.limits import Limits
from testbed.linkfigures import LinkFigures


@dataclass(frozen=True)
class Trust:
    """The network as it was measured before the rounds, and the machine during them.

    ``health`` is missing where nobody watched: the emulation ran on its own.
    """

    fidelity: Fidelity
    health: Health | None

    def findings(self, limits: Limits) -> list[Finding]:
        """What speaks against them."""
        health = check_health(self.health, limits) if self.health else []
        return [*check(self.fidelity, limits), *health]

    def entries(self) -> dict[str, Any]:
        """Entries of ``summary.json``."""
        errors_us = [abs(e) for trip in self.fidelity.paths if (e := trip.error_us) is not None]
        return {
            "rtt_max_error_us": max(errors_us, default=None),
            "fidelity": {
                **worst_figures(self.fidelity),
                "timer_late_us": self.fidelity.timer_late_us,
            },
            "host": self.health.model_dump() if self.health else None,
        }


def read_trust(run_dir: Path) -> Trust:
    """Read what a run measured of itself.

    Raises
    ------
    InputError
        It is missing or does not fit: the run did not get so far.
    """
    raw = run_dir / "raw"
    watched = raw / HEALTH_FILE
    health = read_model(Health, watched) if watched.exists() else None
    return Trust(read_fidelity(raw / FIDELITY_FILE), health)


def write_refusal(run_dir: Path, limits: Limits) -> None:
    """Write ``summary.json`` of a run that ended before its rounds: its network was not right."""
    trust = read_trust(run_dir)
    findings = trust.findings(limits)
    verdict = judge(findings)
    summary = {"run_id": run_dir.name, "verdict": verdict, "reasons": reasons(findings)}
    write_json(run_dir / "summary.json", {**summary, **trust.entries()})
    amend_manifest(run_dir, verdict=verdict)


def worst_figures(fidelity: Fidelity) -> dict[str, float | int | None]:
    """The largest errors of all directions; none where nothing could be measured."""
    links = fidelity.links
    return {
        "directions": len(links),
        "delay_error_us": _worst(links, "delay_error_us"),
        "p99_error_us": _worst(links, "p99_error_us"),
        "jitter_us": _worst(links, "jitter_us"),
        "rate_error_percent": _worst(links, "rate_error_percent"),
        "sustained_error_percent": _worst(links, "sustained_error_percent"),
        "lost": sum(link.lost for link in links),
        "reordered": sum(link.reordered for link in links),
        "unaccounted": sum(link.unaccounted for link in links),
        "mtu_wrong": sum(link.mtu_bytes != link.mtu_asked_bytes for link in links),
    }


def _worst(links: tuple[LinkFigures, ...], name: str) -> float | None:
    errors = [abs(error) for link in links if (error := getattr(link, name)) is not None]
    return max(errors, default=None)
