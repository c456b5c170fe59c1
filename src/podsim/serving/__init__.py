"""What a model costs to serve: latency and throughput by batch, on a GPU or a slice of one."""
