"""Training for real: small networks under a Plan, on the ranks at hand, each step's loss and seconds kept."""
