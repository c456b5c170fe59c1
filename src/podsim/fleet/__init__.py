"""Many jobs on one machine: the queue, who is served first, and where jobs are placed."""
