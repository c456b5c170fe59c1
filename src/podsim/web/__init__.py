"""The same questions as the command line, for a browser: a small server, and pages of plain modules.

`podsim.web.web_server` listens; `podsim.web.questions` is the table of what may be asked. Every number on a screen is
one of the command's `--json`.
"""
