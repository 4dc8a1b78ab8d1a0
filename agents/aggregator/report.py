"""What an aggregator tells of itself at its end."""

from typing import Any

from agents.aggregator.engine import Engine, EngineSettings, Progress
from agents.aggregator.output import AggregateStream
from agents.context import AgentContext
from agents.weights import contributors
from agents.wire import ELEMENT_BYTES


def totals(engine: Engine, settings: EngineSettings, scale: float) -> dict[str, Any]:
    """Counters of the whole run and the use of the memory; bytes as packets see them (scaled)."""
    counters = engine.counters
    block_bytes = settings.layout.elements * ELEMENT_BYTES
    high_water_bytes = engine.high_water * block_bytes
    return {
        "drops": dict(counters.drops),
        "emitted_blocks": dict(counters.emitted),
        "late_blocks": counters.late,
        "slots": settings.slots,
        "block_bytes": block_bytes,
        "memory_bytes": settings.slots * block_bytes,
        "occupied_slots": engine.occupied,
        "high_water_slots": engine.high_water,
        "high_water_bytes": high_water_bytes,
        "high_water_unscaled_bytes": high_water_bytes * scale,
    }


def round_counters(
    ctx: AgentContext, round_index: int, progress: Progress, output: AggregateStream
) -> dict[str, Any]:
    """Counters of one round."""
    expectation, blocks = ctx.expectations[round_index], ctx.layout.blocks
    expected = blocks * len(expectation.senders)
    return {
        "round": round_index,
        "clique": expectation.clique,
        "senders": _codes(ctx, expectation.mask),
        "expected_contributions": expected,
        "contributions": progress.contributions,
        "missing_contributions": expected - progress.contributions,
        "expected_blocks": blocks if expectation.senders else 0,
        "complete_blocks": progress.complete,
        "datagrams_in": progress.datagrams,
        "bytes_in": progress.wire_bytes,
        "datagrams_out": output.datagrams[round_index],
        "bytes_out": output.wire_bytes[round_index],
    }


def _codes(ctx: AgentContext, bitmap: int) -> list[str]:
    return [ctx.plan.topology.codes[city] for city in contributors(bitmap)]
