"""Simulation of a step, op by op, on streams and shared links."""
