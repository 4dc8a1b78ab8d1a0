"""The control plane: schedules, mixing, trees, timing, plan, OpenFlow rules."""
