"""Pipeline schedules as tables: built, checked, played, measured, and exchanged with torch."""
