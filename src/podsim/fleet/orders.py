"""The orders of the queue, each by a key of a job (smaller first); orders.c computes the keys and sorts.

A new order is one entry of ORDERS, and one function of orders.c. Jobs with equal keys run in order of submission.
"""

ORDERS = {
    "first come": "the time of release (FIFO)",
    "shortest": "the length (SJF)",
    "smallest": "the length times the GPUs; with predicted lengths this is QSSF",
    "shortest remaining": "the remaining time (SRTF)",
    "smallest remaining": "the remaining time times the GPUs (SRSF)",
    "least attained": "the attained service in GPU-seconds (LAS)",
    "by level": "the level of attained service; within it running jobs, then stopped ones, then others (Tiresias)",
    "worst off": "the age over the attained service, the largest first (Themis, unknown lengths)",
    "worst off for its length": "the loss of time over the length, the largest first (Themis, known lengths)",
    "multifactor": "age, fair share, size and the site's rank, weighed (Slurm)",
}
"""The orders, each with its key. Its position is its code in queue_state.h."""

MOVING = ("worst off", "worst off for its length", "multifactor")
"""The orders in which time changes the keys of waiting jobs."""
