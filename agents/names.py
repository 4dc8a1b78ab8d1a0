"""The words that configs, agents and the aggregator's table share; takes nothing to import."""

from typing import Literal

Collision = Literal["evict-old", "forward-new", "priority"]
"""What leaves where a block finds no free place."""
Hash = Literal["mod", "mix"]
"""How a block finds its place."""
MemoryModel = Literal["accumulate", "hold"]
"""One sum for each block, or every contribution by itself."""
ElementType = Literal["i32", "i32-exponent", "f32", "bf16"]
"""Elements of a stream."""
EngineName = Literal["native", "reference"]
"""The aggregator's inner loop."""
