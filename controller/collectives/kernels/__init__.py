"""The inner loops: plain functions over arrays, compiled on first use."""
