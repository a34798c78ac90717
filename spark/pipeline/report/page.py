"""The report as one self-contained HTML page: no scripts, no other files, no network."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from . import ReportError
from .figures import Figures
from .formats import counted, duration, moment, number, printable

if TYPE_CHECKING:
    from markupsafe import Markup

_JOINTS: Final = re.compile(r"(?<=[._/:])(?=\w)")


def check_can_draw() -> None:
    """Raises ReportError if a package that draws the page is not installed."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ReportError(
            f"the report's page needs {error.name}, which is not installed on the driver:"
            " pip install 'airflow-interlock[report]'"
        ) from error


def render(figures: Figures, archive: str, now_ms: int) -> str:
    """The page. archive: its path, for the page's head. now_ms: when the report is made."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from .sections import sections

    # Types, ids and keys are untrusted: all text is escaped that is not Markup below.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(files(__package__).joinpath("page.html.j2").read_text("utf-8"))
    return template.render(
        figures=figures,
        sections=[] if figures.empty else list(sections(figures, now_ms)),
        facts=_facts(figures),
        time_range=_time_range(figures),
        archive=printable(archive),
        made=moment(now_ms),
        number=number,
        counted=counted,
        moment=moment,
        breakable=_breakable,
        drawn=Markup,  # matplotlib and ElementTree have escaped the texts in an SVG
    )


def _breakable(text: str) -> Markup:
    """The escaped text with places to wrap it after dots and other punctuation."""
    from markupsafe import Markup

    return Markup("<wbr>").join(_JOINTS.split(text))


def _time_range(figures: Figures) -> str:
    """The requested range."""
    since = "the beginning" if figures.since_ms is None else moment(figures.since_ms)
    until = "the end" if figures.until_ms is None else moment(figures.until_ms)
    return f"from {since} to {until}"


def _facts(figures: Figures) -> list[tuple[str, str, str]]:
    """(name, figure, details)."""
    none = dict.fromkeys(("firings", "met", "fail_on", "expired", "acknowledged", "open"), 0)
    overall = {**none, **figures.overall}

    def figure(latency: str) -> tuple[str, str]:
        p50, p99 = (overall.get(f"{latency}_{name}_ms") for name in ("p50", "p99"))
        return duration(p50), f"p99 {duration(p99)}"

    met = f"{number(overall['met'])} met, {number(overall['fail_on'])} failed by fail_on"
    return [
        ("Events", number(figures.events), f"of {counted(figures.types, 'type')}"),
        ("Firings", number(overall["firings"]), f"{counted(figures.conditions, 'condition')} in force"),
        ("Expired", number(overall["expired"]), met),
        ("Not acknowledged", number(overall["open"]), f"{number(overall['acknowledged'])} acknowledged"),
        ("event → firing, p50", *figure("event_to_firing")),
        ("firing → resume, p50", *figure("firing_to_resume")),
    ]
