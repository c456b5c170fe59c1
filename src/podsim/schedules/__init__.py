"""Pipeline schedules as tables: built, checked, simulated, measured, and exchanged with torch."""
