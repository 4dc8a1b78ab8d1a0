"""The edge aggregator: the software stand-in for the in-line FPGA of a city."""
