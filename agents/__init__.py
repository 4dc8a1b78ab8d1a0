"""What runs on the hosts: wire format, islands, edge aggregators."""
