"""Options, declared once: Python functions, commands, saved files and forms are derived from them.

A group of options is a frozen dataclass whose fields are made by `option`. `question` makes a Python function of keywords
from a function that takes a group; `podsim.cli` makes commands of the same groups. Nothing heavy is imported here.
"""
