"""Collectives: synthesis on a time-expanded network, classic algorithms, checker and bounds."""
