"""MIG: a GPU divided into instances. `split(gpu, layout)` gives the instances as GPUs."""
