"""What the user runs: configuration, runs, analysis, plots, command line."""
