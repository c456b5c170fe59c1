"""A server of language models under load, simulated request by request."""
