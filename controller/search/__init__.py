"""What the optimiser is made of: rounds, their times, how they mix, and the search."""
