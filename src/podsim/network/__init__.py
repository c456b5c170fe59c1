"""How bytes move: shared links, collectives as tables, their play on a fabric, and what NCCL would do."""
