"""What a tool cannot state of a plan, as a comment of its file that podsim reads back.

The comment is the last line, `# podsim: {...}`, and holds one JSON object. In a JSON file, which has no comments, it is
the key `podsim`. It has the plan's fields that no key of the tool states, and the user's words for model and cluster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from podsim.errors import PodsimError
from podsim.options.plan_options import JobOptions, LayoutFields, TrainedFields
from podsim.options.question import options_of
from podsim.workload.specification import shown

_MARK = "podsim"
_LINE = re.compile(rf"(?m)^[ \t]*# {_MARK}: (\{{.{{0,65536}}\}})[ \t]*$")
_KNOWN = {**options_of(JobOptions), **options_of(LayoutFields), **options_of(TrainedFields)}


def add_comment(text: str, values: Mapping[str, object]) -> str:
    """The text with a comment of some values; as it is if there are none."""
    if not values:
        return text
    if text.startswith("{"):
        return json.dumps({**json.loads(text), _MARK: dict(values)}, indent=2) + "\n"
    return f"{text.rstrip()}\n# {_MARK}: {json.dumps(dict(values))}\n"


def comment_of(text: str) -> dict[str, Any]:
    """The values of a text's comment; none if it has no comment. PodsimError for one that podsim did not write."""
    if text.lstrip().startswith("{"):
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError):
            return {}
        values = raw.get(_MARK, {}) if isinstance(raw, dict) else {}
    else:
        lines = _LINE.findall(text)
        try:
            values = json.loads(lines[-1]) if lines else {}
        except (ValueError, RecursionError) as error:
            raise PodsimError(
                f"its comment `# {_MARK}:` is no JSON: {str(error)[:80]}; remove the line"
            ) from None
    if not isinstance(values, dict):
        raise PodsimError(f"its comment {_MARK} = {shown(values)} must be an object; remove it")
    problems = [
        f"{str(name)[:40]}={shown(value)}" for name, value in values.items() if not _is_known(name, value)
    ]
    if problems:
        raise PodsimError(
            f"its comment `{_MARK}` has {', '.join(problems)}, which no plan has; mend or remove it"
        )
    return values


def _is_known(name: str, value: object) -> bool:
    known = _KNOWN.get(name)
    return known is not None and type(value) in known.kinds and (not known.choices or value in known.choices)
