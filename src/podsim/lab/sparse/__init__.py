"""Sparse parameter servers run for real: sharded embedding tables, and workers that train a small DLRM on them."""
