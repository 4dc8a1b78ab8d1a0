"""The compiled kernel of the aggregator: its C sources, how they are built, and their structs."""
