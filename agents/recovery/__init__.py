"""Loss recovery: what both ends of a stream do, without any input or output."""
