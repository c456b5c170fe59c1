"""The name that answers bore before `podsim.answers.answer`, while their users are moved."""

from podsim.answers.answer import Answer as Shown

__all__ = ["Shown"]
