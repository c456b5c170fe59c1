"""Questions about a training run: its plan, its step, its weeks."""
