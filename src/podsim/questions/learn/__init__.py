"""Questions about what a network learns."""
