"""Rows of a comparison as its parts would make them, without planning or running anything."""

from experiments.comparison.rows import Row

SUMMARY = {
    "run_id": "triangles-0123abcd-1",
    "t_measured_ms": 101.0,
    "t_error_percent": 1.0,
    "objective_ms": 202.0,
    "memory_high_water_bytes": 5e6,
    "packets_lost": 0,
    "verdict": "PASS",
}


def made_row(**changes: object) -> Row:
    """A row of a run that agrees with its plan within 1 %."""
    values: dict[str, object] = {
        "group": "schedule",
        "schedule": "triangles",
        "memory_bytes": 0.0,
        "multicast": True,
        "aggregation": True,
        "payload_bytes": 1.79e9,
        "rounds": 2,
        "trees": "shortest-path",
        "feasible": True,
        "reason": "",
        "t_planned_ms": 100.0,
        "t_measured_ms": 101.0,
        "t_error_percent": 1.0,
        "a_rms": 1.5,
        "a_start": 1.5,
        "a_measured": 1.4999999,
        "a_seen": 1.4999999,
        "objective_planned_ms": 200.0,
        "objective_ms": 202.0,
        "island_out_bytes": 1.79e9,
        "island_in_bytes": 1.79e9,
        "busiest_link": "nyc-chi",
        "busiest_link_streams": 3,
        "memory_needed_bytes": 0.0,
        "memory_high_water_bytes": 5e6,
        "packets_lost": 0,
        "verdict": "PASS",
        "run_id": "triangles-0123abcd-1",
        "source": "ran",
    }
    return Row(**{**values, **changes})


NOTHING_MEASURED = {
    "t_measured_ms": None,
    "t_error_percent": None,
    "objective_ms": None,
    "a_measured": None,
    "a_seen": None,
    "island_out_bytes": None,
    "island_in_bytes": None,
    "memory_high_water_bytes": None,
    "packets_lost": None,
    "run_id": "",
}


def made_rows() -> list[Row]:
    """One row of every kind that a table can have."""
    refused = {"feasible": False, "reason": "nyc is 216 MB short", "verdict": "not run"}
    return [
        made_row(),
        made_row(schedule="all-to-all", **NOTHING_MEASURED, **refused, source="refused"),
        made_row(
            schedule="regional",
            a_rms=None,
            a_start=None,
            a_measured=None,
            a_seen=2.0,
            objective_planned_ms=None,
            objective_ms=None,
        ),
        made_row(memory_bytes=32e9, t_planned_ms=90.0, objective_planned_ms=180.0),
        made_row(
            schedule="all-to-all",
            memory_bytes=32e9,
            **NOTHING_MEASURED,
            reason="the guest | died",
            verdict="ERROR",
            source="failed",
        ),
        made_row(group="ablation", memory_bytes=32e9, multicast=False),
        made_row(group="ablation", memory_bytes=32e9, multicast=False, aggregation=False),
        made_row(schedule="pairs", a_rms=7.538, a_start=7.538, a_measured=7.54, a_seen=2.41),
        made_row(group="optimised", schedule="optimised-0B", t_error_percent=-0.2),
    ]
