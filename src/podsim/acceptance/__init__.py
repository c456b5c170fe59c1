"""What was measured of a machine against what was predicted or promised of it."""
