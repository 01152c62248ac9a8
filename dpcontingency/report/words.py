"""What a release protects and what a model says, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.families import Graph, components, in_a_row, links, separations
from dpcontingency.inference.formula import Generators, generating_class
from dpcontingency.inference.naive import NoiseIgnored
from dpcontingency.inference.printing import p_equals, total_text
from dpcontingency.inference.terms import SpecialTerm
from dpcontingency.privacy.gdp import GDP, ceil_digits
from dpcontingency.privacy.neighbours import ADD_REMOVE, REPLACE_ONE
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.release import Release

SENTENCES = 12  # of one kind about a model
LEVEL = 0.05  # false alarms of the test in the account of what can be learnt about one record


def best_power(privacy: GDP, level: float = LEVEL) -> float:
    """The power of the best test between two neighbouring data sets, at a level of false alarms.

    Rounded up to the next tenth of a percent, so that no loss is understated.
    """
    return math.ceil(1000 * (1 - float(privacy.trade_off(level)))) / 1000


def neighbours_in_words(release: AnyRelease) -> str:
    """Between which data sets a release with a neighbour relation protects."""
    if release.neighbours == ADD_REMOVE:
        return "data sets that differ by the presence of one record"
    fixed = f", but not in its {', '.join(release.strata)}" if release.strata else ""
    return f"data sets that differ in the value of one record{fixed}"


def protection(release: AnyRelease) -> list[str]:
    """What someone may learn about one record from a private release, one paragraph each."""
    if release.privacy is None:
        return [
            "The publisher's privacy loss is not stated: it depends on what the publisher counts "
            "as neighbouring data, which is not known here."
        ]
    rate, power = percent(LEVEL), percent(best_power(release.privacy), 1)
    if release.neighbours == REPLACE_ONE:
        same = f" with the same {', '.join(release.strata)}" if release.strata else ""
        account = (
            "Suppose someone knows every record but one, and wants to find out which of two "
            f"values{same} this record has. The best test that this release allows, if it may "
            f"wrongly name the second value in {rate} of the cases, rightly names it in at most "
            f"{power}."
        )
    else:
        account = (
            "Suppose someone knows every record but one, and wants to find out whether this "
            "record is in the data at all. The best test that this release allows, if it may "
            f"wrongly say yes in {rate} of the cases, rightly says yes in at most {power}."
        )
    if release.neighbours != REPLACE_ONE and release.totals is not None:
        return [
            f"{account} Guessing without the release would do so in {rate}.",
            "That is said of the noisy cells alone. The number of records is printed without "
            "noise, and whoever knows every other record learns from it whether this one is in "
            "the data.",
        ]
    return [
        f"{account} Guessing without the release would do so in {rate}.",
        "This holds whatever else that person knows, for every record, and for everything in this "
        "report, because all of it is computed from the released numbers alone.",
    ]


def not_protected(release: AnyRelease) -> list[str]:
    """What a private release leaves open, one sentence or two each."""
    out = [
        "What is true of the whole group. Associations such as those below are learnt from many "
        "records and would be much the same without any one of them.",
        "The factors and their levels, which were declared in public.",
    ]
    if release.totals is not None:
        public = release.statement()["Public"]
        out.append(f"{public[:1].upper()}{public[1:]}, printed without noise.")
    if release.privacy is not None:
        pair, twice = release.privacy.group(2), release.privacy.compose(release.privacy)
        out += [
            "People with several records. The loss grows with their number: for two records it "
            f"is mu = {ceil_digits(pair.mu)}.",
            "Further releases from the same records. Losses add up: a second release at the same "
            f"mu, under the same neighbours and strata, makes mu = {ceil_digits(twice.mu)} for "
            "both together.",
        ]
    out.append("The records themselves, where they are stored, and who may read them there.")
    return out


def columns_in_words(release: Release) -> list[str]:
    """How to read the columns of the table of cells."""
    out = []
    if release.noise.is_exact:
        out.append("The cells are exact: there is no noise, and the standard deviations are 0.")
    else:
        out.append(
            "Noisy is the count plus noise with mean 0; noise SD is the standard "
            "deviation of that noise, a fact about these records and not about the population. "
            "Every test and model in this report uses the noisy column."
        )
    if not np.array_equal(release.estimate, release.noisy):
        maker = release.mechanism
        name = "the mechanism of each sample" if maker is None else type(maker).__name__
        out.append(
            f"Estimate is the estimate of {name}: the noisy table shrunken, closer to the counts "
            "on average but biased. It is for reading and publishing; no test uses it."
        )
    if release.totals is not None and not np.isclose(release.noisy.sum(), release.n_total):
        out.append(
            "The noisy cells do not add up to the public number of records; tests and models "
            "use that number too."
        )
    inside = release.domain.possible()
    noisy, sd = release.noisy[inside], release.noise_sd[inside]
    if negative := int((noisy < 0).sum()):
        out.append(
            f"Negative: {negative:,} of {number_of(noisy.size, 'cell')}. A count cannot be, but a "
            "small count plus noise can. They stay as they are: raising them to 0 would push up "
            "every sum they are part of. The models allow for it."
        )
    if low := int((noisy < 2 * sd).sum()):
        out.append(
            f"Below 2 noise standard deviations: {low:,} of {number_of(noisy.size, 'cell')}. Taken "
            "alone, such a cell does not tell a small count from 0."
        )
    if impossible := release.domain.size - noisy.size:
        out.append(
            f"Impossible by the definition of the domain: {number_of(impossible, 'cell')}, 0 and "
            "without noise."
        )
    return out


def plan_in_words(release: MarginRelease) -> list[str]:
    """How to read a release of margins."""
    return [
        "The margins below were released, and not the joint table. They agree with each other: "
        "where two of them share factors, both give the same sums. Any part of one of them can be "
        "taken too; of factors that no margin holds together, nothing was released beyond what "
        "the margins of fewer of them say.",
        "Noise was added to the interactions of which the margins are made, each with a scale of "
        "its own. The standard deviations follow from the plan alone, and were known before "
        "anything was spent. The noises of different cells are correlated; models and tests "
        "allow for that.",
    ]


def model_in_words(
    generators: Generators, names: Sequence[str], special: Sequence[SpecialTerm] = ()
) -> list[str]:
    """What a model says, one sentence each.

    Two factors that no term has in common are independent given those that separate them.

    Examples
    --------
    >>> model_in_words((("A", "C"), ("B", "C")), ["A", "B", "C"])
    ['A and B are independent given C.']
    >>> model_in_words((("A",), ("B",)), ["A", "B"])
    ['A and B are independent.']
    >>> from dpcontingency.inference.terms import Named
    >>> linear = SpecialTerm((), (Named("score", ("A",)), Named("score", ("B",))))
    >>> model_in_words((("A",), ("B",)), ["A", "B"], [linear])
    ['The joint effect of A and B is described by score(A):score(B), not freely.']
    """
    described = _described(generators, names, special)
    together = [sorted(term.involved) for term in special]
    generators = generating_class([*generators, *together], names)
    linked = links(generators, names)
    used, groups = list(linked), components(linked)
    out = []
    if len(groups) == len(used) > 1:
        out.append(f"{in_a_row(used)} are independent{' of each other' if len(used) > 2 else ''}.")
    elif len(groups) > 1:
        listed = "; ".join(in_a_row(group) for group in groups)
        out.append(f"These groups of factors are independent of each other: {listed}.")
    out += _independences(generators, linked)
    out += _missing_interactions(generators, linked)
    out += described
    if used and not out:
        out.append(f"No restriction on {in_a_row(used)} (saturated model).")
    left = [name for name in names if name not in used]
    if len(left) == 1:
        out.append(f"{left[0]} is not in the model: its levels are taken to be equally likely.")
    elif left:
        out.append(
            f"{in_a_row(left)} are not in the model: the levels of each are taken to be equally "
            "likely."
        )
    return out


def _described(
    generators: Generators, names: Sequence[str], special: Sequence[SpecialTerm]
) -> list[str]:
    """A sentence for each set of factors whose joint effect the model has by special terms only."""
    texts: dict[tuple[str, ...], list[str]] = {}
    for term in special:
        factors = tuple(name for name in names if name in term.involved)
        if not any(set(factors) <= set(margin) for margin in generators):
            texts.setdefault(factors, []).append(term.text)
    return [
        f"The {'joint ' if len(factors) > 1 else ''}effect of {in_a_row(factors)} is described by "
        f"{in_a_row(terms)}, not freely."
        for factors, terms in texts.items()
    ]


def percent(share: float, digits: int = 0) -> str:
    """A share between 0 and 1 as printed; only 0 is printed as 0, and only all as 100.

    Examples
    --------
    >>> percent(0.05), percent(0.123, 1), percent(0.001), percent(0.999), percent(0.0)
    ('5 %', '12.3 %', '< 1 %', '> 99 %', '0 %')
    """
    if math.isnan(share):
        return "n/a"
    least = 10.0 ** -(digits + 2)
    if 0 < share < least:
        return f"< {100 * least:g} %"
    if 1 - least < share < 1:
        return f"> {100 * (1 - least):g} %"
    return f"{100 * share:.{digits}f} %" if share else "0 %"


def records_of(release: AnyRelease) -> str:
    """The number of records, and whether it is public or noisy.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> records_of(Release.exact([[5, 3]], Domain({"A": ["a"], "B": ["u", "v"]})))
    '8 records (exact)'
    """
    total, _, kind = total_text(release).partition(" ")
    return f"{total} record{'' if total == '1' else 's'} {kind}"


def size_of(release: AnyRelease) -> str:
    """Cells, or margins and factors, and records.

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> size_of(Release.exact([[5, 3]], Domain({"A": ["a"], "B": ["u", "v"]})))
    '2 cells, 8 records (exact)'
    """
    if isinstance(release, MarginRelease):
        factors = number_of(len(release.domain.names), "factor")
        what = f"{number_of(len(release.margins), 'margin')} of {factors}"
    else:
        what = number_of(int(release.domain.possible().sum()), "cell")
    return f"{what}, {records_of(release)}"


def number_of(count: int, things: str) -> str:
    """A number of things, in the singular where there is one.

    Examples
    --------
    >>> number_of(1, "cell"), number_of(1200, "cell")
    ('1 cell', '1,200 cells')
    """
    return f"{count:,} {things}{'' if count == 1 else 's'}"


def _independences(generators: Generators, linked: Graph) -> list[str]:
    """Which factors are independent given others: pair by pair, of many pairs factor by factor."""
    pairs = [
        f"{a} and {b} are independent given {in_a_row(given)}."
        for a, b, given in separations(generators, list(linked))
        if given
    ]
    if len(pairs) <= SENTENCES:
        return pairs
    out = [
        f"{name} is independent of all other factors given "
        f"{in_a_row([one for one in linked if one in beside])}."
        for name, beside in linked.items()
        if 0 < len(beside) < len(linked) - 1
    ]
    if (more := len(out) - SENTENCES) > 0:
        said = f"So is each of {more:,} more factors, given those that it has a term with."
        out[SENTENCES:] = [said]
    return out


def _missing_interactions(generators: Generators, linked: Graph) -> list[str]:
    """A sentence for each smallest set of mutually linked factors without a joint term."""
    groups = _without_term(generators, linked)
    fixed = ", the others held fixed" if len(linked) > 3 else ""
    if len(groups) > 1:
        involved = [name for name in linked if any(name in group for group in groups)]
        size = len(groups[0])
        if {len(group) for group in groups} == {size} and (
            len(groups) == math.comb(len(involved), size)
        ):
            which = f"any {size} of {in_a_row(involved)}"
            if size > 3:
                return [f"There is no joint interaction of {which}."]
            return [
                f"There is no interaction of {which} together: the association of any two of them "
                f"does not depend on a third{fixed}."
            ]
    out = [
        f"There is no interaction of {in_a_row(group)} together: the association of any two of "
        f"them does not depend on the third{fixed}."
        if len(group) == 3
        else f"There is no joint interaction of {in_a_row(group)}."
        for group in groups
    ]
    if (more := len(out) - SENTENCES) > 0:
        out[SENTENCES:] = [f"Nor is there one of {number_of(more, 'more set')} of factors."]
    return out


def _without_term(generators: Generators, linked: Graph) -> list[list[str]]:
    """The smallest sets of mutually linked factors that lie in no generator, in order.

    All subsets of such a set lie in one, so a size is made of what the size below has left; and in
    generators that differ, so that none is larger than there are generators.
    """
    margins, place = list(map(frozenset, generators)), {name: k for k, name in enumerate(linked)}
    inside = {frozenset((a, b)) for a in linked for b in linked[a]}
    out: list[list[str]] = []
    for _ in range(3, len(margins) + 1):
        larger = {
            group | {name}
            for group in inside
            for name in frozenset.intersection(*(linked[one] for one in group))
        }
        whole = {group for group in larger if all(group - {name} in inside for name in group)}
        inside = {group for group in whole if any(group <= margin for margin in margins)}
        out += sorted(
            (sorted(group, key=place.__getitem__) for group in whole - inside),
            key=lambda group: [place[name] for name in group],
        )
        if not inside:
            break
    return out


def naive_in_words(naive: NoiseIgnored) -> str:
    """What a test that ignores the noise says, and how often it is wrong."""
    se = math.sqrt(naive.size * (1 - naive.size) / naive.n_tables)
    return (
        "no result, but a warning: Pearson's chi-square on the noisy cells would be "
        f"{naive.statistic:.4g} on {naive.df} df, {p_equals(naive.pvalue)}; at this noise such a "
        f"test rejects a true null in {percent(naive.size, 1)} of cases at the 5 % level "
        f"({naive.n_tables:,} simulated tables, Monte Carlo SE {percent(se, 1)})"
    )
