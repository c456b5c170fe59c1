"""Training runs: the best plans, and their days with failures, energy and money."""
