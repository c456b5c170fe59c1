"""Accelerators, links, servers and clusters, from the catalog or from a user's file."""
