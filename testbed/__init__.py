"""The emulated network: topology, Mininet, shaping, fidelity, virtual time."""
