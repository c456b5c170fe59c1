"""Learning: losses, steps to a target, number formats and sparsity, independent of GPU and network."""
