"""Runs any command inside a User Mode Linux kernel whose clock is virtual."""
