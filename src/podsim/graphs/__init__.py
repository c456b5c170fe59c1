"""Any module as a graph of ops, and what the graph costs."""
