"""What passes between the server and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Job:
    """A question for a worker."""

    name: str
    """The name of a question in the API."""
    given: Mapping[str, Any]
    """The options as they were sent."""
    uploads: Mapping[str, str] = field(default_factory=dict)
    """The paths of the visitor's files, by ID."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a worker says of a question."""

    status: int
    """The exit status that the command would have: 0 answered, 1 no, 2 misuse, 70 a bug."""
    text: str
    """The JSON of the answer, or of the problems."""
