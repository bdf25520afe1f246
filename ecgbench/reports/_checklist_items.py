"""The items of two reporting checklists, each as its subject in our own words.

TRIPOD+AI: G. S. Collins et al., BMJ 385:e078378 (2024), 27 numbered items. STARD-AI: V. Sounderajah
et al., Nature Medicine (2025), for studies of diagnostic accuracy; its items stand here without
numbers. The published checklists are the authority: names and numbers here help to find an item,
and replace none.
"""

from dataclasses import dataclass

TRIPOD, STARD = "TRIPOD+AI", "STARD-AI"


@dataclass(frozen=True)
class Item:
    """One subject of a checklist."""

    checklist: str
    number: str
    """As published, where it is certain; else ""."""
    subject: str
    topic: str = ""
    """What of the store answers it: a name in `_checklist_answers.ANSWERS`; "": the authors do."""


def _tripod(*items: tuple[str, str, str]) -> tuple[Item, ...]:
    return tuple(Item(TRIPOD, number, subject, topic) for number, subject, topic in items)


def _stard(*items: tuple[str, str]) -> tuple[Item, ...]:
    return tuple(Item(STARD, "", subject, topic) for subject, topic in items)


ITEMS = (
    *_tripod(
        ("1", "Title: that a prediction model is evaluated, for whom and for what", ""),
        ("2", "Abstract", ""),
        ("3", "Background: clinical context, intended use, known inequalities", ""),
        ("4", "Objectives, and whether models are developed or evaluated", "plan"),
        ("5", "Sources of the data, and when they were collected", "data"),
        ("6", "Participants: setting, eligibility, treatments", "participants"),
        ("7", "How data were prepared and checked", "preparation"),
        ("8", "Outcome: what is predicted and how it was assessed", "outcome"),
        ("9", "Predictors: what the model is given", "predictors"),
        ("10", "Sample size, and how it was arrived at", "size"),
        ("11", "Missing data: what is missing and how it is handled", "missing"),
        ("12", "How the data were used, and how models were built and assessed", "methods"),
        ("13", "Class imbalance", "imbalance"),
        ("14", "Fairness: how it was looked at", "subgroups"),
        ("15", "What the model puts out, and thresholds", "output"),
        ("16", "Differences between the data of training and of evaluation", "training"),
        ("17", "Ethical approval", ""),
        ("18", "Funding and conflicts of interest", ""),
        ("18", "Protocol and registration", "plan"),
        ("18", "Availability of data", "data"),
        ("18", "Availability of code", "code"),
        ("19", "Involvement of patients and the public", ""),
        ("20", "Flow and characteristics of participants", "characteristics"),
        ("21", "Numbers of participants and events in each analysis", "events"),
        ("22", "Specification of the models", "model"),
        ("23", "Performance with intervals", "performance"),
        ("23", "Performance in groups of patients", "subgroups"),
        ("24", "Results of updating a model", "updating"),
        ("25", "Interpretation", ""),
        ("26", "Limitations", "limitations"),
        ("27", "Usability in the current context of care, further research", ""),
    ),
    *_stard(
        ("Title and abstract name a study of diagnostic accuracy of an AI model", ""),
        ("Background, intended use and role of the index test", ""),
        ("Objectives and hypotheses", "plan"),
        ("Design: whether data were collected before or after the study was planned", ""),
        ("Ethical approval", ""),
        ("Eligibility, setting, dates and sampling of participants", "participants"),
        ("Source of the data, and how they were collected", "data"),
        ("How data were prepared, and what was left out", "preparation"),
        ("How records were divided into training, validation and test", "partition"),
        ("Index test: the model, its version and what it is given", "model"),
        ("Index test: input, and how absent leads are filled", "predictors"),
        ("How the model was trained", "training"),
        ("Reference standard: definition, who set it, why it was chosen", "outcome"),
        ("Cut-offs of the index test, and whether they were set beforehand", "output"),
        ("Who knew what of index test and reference standard", ""),
        ("Measures of accuracy, and how they are compared", "methods"),
        ("Indeterminate results", "failed"),
        ("Missing data", "missing"),
        ("Analyses of variability and of groups, planned and exploratory", "subgroups"),
        ("Sample size", "size"),
        ("Flow of participants", "characteristics"),
        ("Characteristics of participants", "characteristics"),
        ("Severity of disease, and alternative diagnoses", ""),
        ("Interval between index test and reference standard", ""),
        ("Counts of positives and negatives in the test set", "events"),
        ("Estimates of accuracy with intervals", "performance"),
        ("Errors and failures of the model", "failed"),
        ("Harm from the tests", ""),
        ("Limitations, bias, how far results carry over", "limitations"),
        ("Implications for practice", ""),
        ("Registration and protocol", "plan"),
        ("Funding and commercial interests", ""),
        ("Availability of data", "data"),
        ("Availability of code and of the model", "code"),
    ),
)
