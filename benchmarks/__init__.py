"""Benchmarks: what planning costs."""
