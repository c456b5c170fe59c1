"""What every answer of podsim can do: show itself in a few lines, and become plain data, a table or a figure."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VIEWS = "podsim.report.views"
"""the module that knows how answers look; loaded by name, as results know no reports"""


class Shown:
    """An answer of a public question: what it says of itself is what its command prints."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep the short text from the one with every field that `dataclass` would make."""
        super().__init_subclass__(**options)
        cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """The first lines of the command's answer."""
        return str(import_module(_VIEWS).short_text(self))

    def _repr_html_(self) -> str:
        """The command's answer as HTML, for notebooks."""
        return str(import_module(_VIEWS).html(self))

    def to_dict(self) -> dict[str, Any]:
        """The answer as dicts, lists, numbers in SI and text: the data of the command's --json."""
        plain: dict[str, Any] = import_module(_VIEWS).plain_data(self)
        return plain

    def to_frame(self) -> Any:
        """The rows of the command's --csv as a data frame of pandas, or else of polars.

        Raises PodsimError if neither is installed.
        """
        return import_module(_VIEWS).data_frame(self)

    def plot(self, **options: Any) -> Figure:
        """The chart of the answer, a figure of matplotlib; options are those of its chart, as `chart` of a study.

        Raises PodsimError for an answer without a chart, and without matplotlib.
        """
        figure: Figure = import_module(_VIEWS).figure(self, **options)
        return figure
