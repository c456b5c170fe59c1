"""The verbs, as Python functions: what the command line does, with the same names and arguments."""
