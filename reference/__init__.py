"""How published tables became the tables that podsim ships: readers of each source's words. Not shipped."""
