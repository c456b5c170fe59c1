"""Questions about serving a trained model."""
