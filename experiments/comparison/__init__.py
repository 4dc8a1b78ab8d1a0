"""The comparison: schedules, ablations and memories, planned and on packets, in one table."""
