"""Questions about a real machine: measured, compared, watched."""
