"""A peer for our collectives: Open MPI's all-reduce between the same hosts."""
