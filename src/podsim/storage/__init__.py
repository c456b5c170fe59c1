"""Storage systems, checkpoints, the data that training reads, and what limits them."""
