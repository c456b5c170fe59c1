"""Any PyTorch module as a graph of ops, and the cost of the graph."""
