"""How a model is laid out on a cluster: plans, their memory, their step time, and the search for the best."""
