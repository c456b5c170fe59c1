"""The same questions as the command line, for a browser: a small server, and pages of plain modules.

`podsim.web.web_server` listens; `podsim.questions.registry` says what may be asked. Every number on a screen is
one of the command's `--json`.
"""
