"""Communication: shared links, collectives as tables, their simulation on a fabric, and NCCL's choice."""
