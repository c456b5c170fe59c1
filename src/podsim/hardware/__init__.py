"""What there is: accelerators, links, servers and clusters, from the catalog or from a user's file."""
