"""A small language model that is really served: an engine with continuous batching, a server, and a load generator."""
