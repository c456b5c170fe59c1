"""Real runs: collectives over torch.distributed, and clusters emulated in network namespaces.

The only package that needs PyTorch, and only when something is run. It knows programs (tables of collectives), never
what they cost: what it measures is held against predictions by `podsim compare`, not here.
"""
