"""Storage systems, the data that training reads from them, and what limits it."""
