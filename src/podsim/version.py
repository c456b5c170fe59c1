"""The version of podsim."""

__version__ = "0.2.0"
