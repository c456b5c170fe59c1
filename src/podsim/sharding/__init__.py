"""Automatic sharding: annotations of a few tensors spread over a graph of ops, which gives every op its collectives."""
