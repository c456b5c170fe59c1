"""What a network learns: losses, steps to a target, number formats and sparsity; it knows no GPU and no network."""
