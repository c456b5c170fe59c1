"""What every answer of podsim can do: show itself in a few lines, and become plain data, a table or a figure."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from podsim.records import dataclass

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VIEWS = "podsim.report.views"
"""the module that shows answers; loaded by name, as answers know no reports"""

Hook: TypeAlias = "str | Callable[..., Any] | None"
"""a function, or its place as MODULE:FUNCTION of podsim, which is loaded when it is needed"""


def load(name: str) -> Any:
    """What MODULE:NAME of podsim is, which is imported only now."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"podsim.{module}"), attribute)


def call(hook: Any, *arguments: Any, **options: Any) -> Any:
    """What the function of a hook gives."""
    return (load(hook) if isinstance(hook, str) else hook)(*arguments, **options)


@dataclass(frozen=True, kw_only=True)
class View:
    """What is particular about how a kind of answer looks; all the rest follows from its fields."""

    report: Hook = None
    """The function from an answer to its report; without one, the fields are shown."""
    brief: Hook = None
    """The function from an answer to its report at a glance; --verbose prints `report`."""
    rows: Hook = None
    """The field, or the function, that gives the rows of CSV; by default what becomes JSON."""
    data: Hook = None
    """The function from an answer to what becomes JSON; by default the answer itself."""
    figure: Hook = None
    """The function from an answer to its chart: a sheet of `report.chart_marks`, or a figure of matplotlib."""
    image: Hook = None
    """The function from (answer, "svg" or "png") to the bytes of a picture that is no figure of matplotlib."""
    charts: Hook = None
    """The function from an answer to the figures of its page; by default its chart alone."""
    chart: str = "Chart"
    """The title of the chart on a page."""
    page: Hook = None
    """The function from an answer to the text of its page, where that is not its report."""
    has_detail: bool = False
    """Whether `report` takes `detail`, as the option says."""


class Answer:
    """An answer of a public question: what it says of itself is what its command prints."""

    view: ClassVar[View] = View()

    def __init_subclass__(cls, view: View | None = None, **options: Any) -> None:
        """Keep the view, and the short text rather than the one with every field that `dataclass` would make."""
        super().__init_subclass__(**options)
        cls.view = view or cls.view
        cls.__repr__ = Answer.__repr__  # type: ignore[method-assign]

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
