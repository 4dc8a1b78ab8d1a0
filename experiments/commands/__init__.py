"""The commands of the command line: what each takes, and what it calls."""
