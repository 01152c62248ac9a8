"""What the guarantee of a release is and is not, point by point.

The points are those by which NIST SP 800-226 asks a claim of differential privacy to be judged:
its parameters and what they protect, mechanism, composition and budget, trust, utility and bias,
and what lies around the mathematics (side channels, custody of the records, their collection).
"""

from __future__ import annotations

from collections.abc import Iterator

from dpcontingency.inference.cells import AnyRelease
from dpcontingency.privacy.gdp import ceil_digits
from dpcontingency.report.parts import Fact, Facts, Section, Text
from dpcontingency.report.tables import DELTA
from dpcontingency.report.words import neighbours_in_words


def guarantee(release: AnyRelease) -> Section:
    """The section of a report that says what the guarantee is."""
    title = "The guarantee, point by point"
    if not release.private:
        return Section(
            "guarantee",
            title,
            [
                Text(
                    "There is none: the records behind this table were not protected, or not in "
                    "all respects (see the top of this report). Nothing below would change that."
                ),
                Facts(list(_around())),
            ],
        )
    points = [*_parameters(release), *_making(release), *_use(release), *_around()]
    return Section("guarantee", title, [Facts(points)])


def _parameters(release: AnyRelease) -> Iterator[Fact]:
    unit = "Not stated by the publisher."
    if release.neighbours is not None:
        unit = (
            f"One record, for every record alike. Neighbours are {neighbours_in_words(release)}. "
            "Who has k records in the data is protected at k times mu only; if one person has one "
            "record, the unit is the person."
        )
    yield Fact("unit", "Unit of privacy", unit)
    if release.privacy is None:
        yield Fact("parameters", "Privacy parameters", "Not stated by the publisher.")
        return
    mu, epsilon = release.privacy.mu, release.privacy.epsilon(DELTA)
    yield Fact(
        "parameters",
        "Privacy parameters",
        f"mu = {ceil_digits(mu)}. Whatever test is made of this release, it tells two neighbouring "
        "data sets apart no better than one draw tells a normal distribution from the same one "
        "moved by mu standard deviations. That is a whole curve of error rates; "
        f"epsilon = {ceil_digits(epsilon)} at delta = {DELTA:g} is one point on it. Smaller is "
        "stronger, and no value is safe for every purpose.",
    )


def _making(release: AnyRelease) -> Iterator[Fact]:
    if "samples" in release.provenance:
        made = "Several releases, put together after each was made as its own report says."
    elif release.origin == "third-party":
        made = (
            "Made elsewhere. Inference takes the stated noise for the noise that was added; how it "
            "was drawn is the publisher's claim."
        )
    else:
        made = (
            f"{release.noise.name} noise of fixed scale, chosen before any count was seen, from "
            "the operating system's generator; rounded to a grid by its exact law, so that no "
            "delta is added and no low bit of a number tells of a count. There is no seed to lose."
        )
    yield Fact("mechanism", "Mechanism and sampler", made)
    yield Fact(
        "post_processing",
        "What came after",
        "All estimates, tests, models and pictures are computed from the released numbers "
        "alone, which takes nothing from the guarantee.",
    )
    total = "" if release.totals is None else f"; {release.statement()['Public']}"
    yield Fact(
        "public",
        "Public or assumed",
        "Without noise, and not protected: the factors, their levels and impossible cells; the "
        f"mechanism and its scale{total}. The guarantee assumes that the factors, levels and scale "
        "were not chosen by looking at the records.",
    )
    yield Fact(
        "trust",
        "Trust model",
        "Central: whoever made the release held the exact records and is trusted with them. "
        "Protection begins where the release leaves their hands.",
    )
    yield Fact(
        "composition",
        "Budget and repeated releases",
        "The loss is of this release alone. Others from the same records add up as the root of "
        "the sum of squared mu, and a release cannot know of them: a PrivacyLedger keeps the sum "
        "and refuses what exceeds a budget. Noise drawn anew for the same table is a new release.",
    )


def _use(release: AnyRelease) -> Iterator[Fact]:
    yield Fact(
        "utility",
        "Utility and bias",
        "The noisy numbers are unbiased, and the size of their noise is known and printed. The "
        "noise is as large for a small group as for a large one, so small groups are known less "
        "well. Estimates that were shrunken, rounded or raised to 0 are biased, and no test here "
        "uses them.",
    )


def _around() -> Iterator[Fact]:
    yield Fact(
        "side_channels",
        "Side channels",
        "Time, memory and energy that counting and releasing take depend on the records; so may "
        "logs and error messages of the systems around. The guarantee does not cover them: do not "
        "let others watch the machine that counts.",
    )
    yield Fact(
        "custody",
        "Collection and custody",
        "How the records were gathered and with whose consent, where they are kept, who reads "
        "them, when they are deleted, and how well they stand for the population: all of it is "
        "outside the guarantee.",
    )
