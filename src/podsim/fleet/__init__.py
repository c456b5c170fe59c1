"""Whole machines over days and months: what fails, and what that leaves of the time."""
