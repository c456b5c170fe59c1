"""Serving a model: latency and throughput by batch, on a GPU or a slice of one."""
