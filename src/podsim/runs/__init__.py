"""Runs of training as a whole: the best plans, their days with failures, energy and money, from the rooms below."""
