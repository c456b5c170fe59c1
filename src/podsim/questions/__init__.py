"""The questions of podsim: each is a Python function, a command and a page with the same options."""
