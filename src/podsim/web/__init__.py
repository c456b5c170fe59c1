"""The browser's pages: a small server, and JavaScript modules without a framework.

`podsim.web.web_server` listens; `podsim.questions.registry` says what may be asked. Every number on a screen is
one of the command's `--json`.
"""
