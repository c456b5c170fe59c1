"""Workloads: neural networks as tensor ops, from a catalog or from a config.json."""
