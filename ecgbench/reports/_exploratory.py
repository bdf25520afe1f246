"""What is exploratory: where a plan is frozen, all results but those of its hypotheses, each said
once in its section.
"""

from dataclasses import replace
from typing import Any

from ecgbench.reports._section import Notes, ReportCard, Section
from ecgbench.results.study import Study
from ecgbench.study import frozen

WORD = "exploratory"
NOTE = "Exploratory: what stands here was not asked by the frozen plan."


def said(section: Section, card: ReportCard, source: Any) -> Section:
    """The section of a report, with the word where it belongs."""
    if not (card.exploratory and isinstance(source, Study) and frozen.read(source.path)):
        return section
    if not section.title:
        return replace(section, parts=[*section.parts, Notes([NOTE])])
    return replace(section, title=f"{section.title} ({WORD})")
