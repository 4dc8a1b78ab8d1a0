"""Reasons against a run, and the verdict that follows from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["DEGRADED", "FAIL"]
Verdict = Literal["PASS", "DEGRADED", "FAIL"]


@dataclass(frozen=True)
class Finding:
    """One reason against a run."""

    level: Level
    text: str


def judge(findings: Sequence[Finding]) -> Verdict:
    """Take the worst level that was found."""
    levels = {finding.level for finding in findings}
    return "FAIL" if "FAIL" in levels else "DEGRADED" if "DEGRADED" in levels else "PASS"


def reasons(findings: Sequence[Finding]) -> list[str]:
    """What was found in words, the worst first."""
    return [f.text for f in sorted(findings, key=lambda f: f.level != "FAIL")]
