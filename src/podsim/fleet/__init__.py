"""Many jobs on one machine, and what it draws and costs."""
