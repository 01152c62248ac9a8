"""The sections of a report that come from the release itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.overview import (
    AssociationOverview,
    association_overview,
    pairs_of,
)
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.testresult import TestResult
from dpcontingency.report import plots
from dpcontingency.report.findings import Findings, title_of
from dpcontingency.report.fit_tables import has_cells
from dpcontingency.report.kinds import Kind
from dpcontingency.report.parts import (
    Block,
    Bullets,
    Column,
    Fact,
    Facts,
    Note,
    Section,
    Table,
    Text,
    label,
)
from dpcontingency.report.pictures import drawn
from dpcontingency.report.tables import (
    MAX_ROWS,
    associations_table,
    attack_table,
    loss_table,
    margin_table,
    one_way_table,
)
from dpcontingency.report.words import neighbours_in_words, not_protected, protection

LARGEST_CHECKSUMMED = 10**6  # cells
MAX_PAIRS = 200  # of factors, some hundredths of a second each
MAX_DRAWN = 30  # factors in a heat map

_PROVENANCE = {"noise": "Noise drawn as", "source": "Source", "samples": "Samples"}
_KEYS = {"Missing values": "missing"}
_MARGINS = (
    "The interval covers the noise only: it is about the records that were counted, and not about "
    "the population they came from. Sampling SD is how much a cell would vary between samples of "
    "this size without any noise (multinomial, in each stratum by itself where their numbers of "
    "records are public; Poisson where none is), at the released value. The last column is the "
    "noise's part of the sum of both variances: near 0 %, the noise costs little; near 100 %, it "
    "is nearly all that is seen."
)


def protection_section(kind: Kind) -> Section:
    """What was released, and how it was protected."""
    release = kind.release
    title = "What was released and how it was protected"
    blocks: list[Block] = [Facts(list(_facts(kind)))]
    if not release.private:
        return Section("protection", title, blocks)
    learnt: list[Block] = [Text(paragraph) for paragraph in protection(release)]
    if release.privacy is not None:
        blocks.append(loss_table(release, kind.scale()))
        caption = (
            "The best attack at every rate of false alarms. The closer the curve is to the "
            "diagonal, where nothing is learnt, the better the protection."
        )
        learnt += [
            drawn("trade-off", caption, lambda: plots.trade_off(release)),
            attack_table(release),
        ]
    parts = [
        Section("learnt", "What can be learnt about one record", learnt),
        Section("open", "What is not protected", [Bullets(not_protected(release))]),
    ]
    return Section("protection", title, blocks, parts)


def _facts(kind: Kind) -> Iterator[Fact]:
    """What was released and how, as labelled facts."""
    release = kind.release
    levels = release.domain.levels
    shape = ", ".join(f"{name} ({len(levels[name])})" for name in release.domain.names)
    said = release.statement()
    if release.neighbours is not None:
        said["Neighbours"] = f"{release.neighbours}: {neighbours_in_words(release)}"
    if release.private and release.privacy is not None:
        del said["Privacy"]  # the table of losses says it
    said.pop("Margins", None)  # the plan lists them
    yield Fact("factors", "Factors (levels)", shape)
    for name, text in said.items():
        yield Fact(_KEYS.get(name, name.lower()), name, text)
    yield from kind.how_made()
    for key, value in release.provenance.items():
        if key != "missing":  # the statement says it
            yield Fact(f"provenance_{key}", _PROVENANCE.get(key, key), str(value))
    if release.domain.size <= LARGEST_CHECKSUMMED:
        text = f"{release.checksum}, of all other entries; sha256sum of the file is another number"
        yield Fact("checksum", "Entry “checksum” of the release file", text, release.checksum)


def margins_section(kind: Kind) -> Section:
    """The margins with their intervals, and what the noise is in them."""
    release = kind.release
    known = [(name, margin, kind.half_widths(margin)) for name, margin in kind.one_way()]
    blocks: list[Block] = [Text(_MARGINS)]
    if known:
        blocks.append(one_way_table(release, known))
    blocks += [Note(f"{name}: {reason}") for name, reason in kind.refused()]
    if not release.noise.is_exact:
        caption = (
            "What the cells of a margin hold, beside the noise in one of them and the sampling "
            "error of a cell of median size."
        )
        chosen = kind.drawn_margins()
        blocks.append(
            drawn("signal", caption, lambda: plots.noise_versus_signal(release, margins=chosen))
        )
    parts: list[Block] = []
    left, shown = MAX_ROWS, 0
    for names in kind.wanted():
        if left <= 0:
            break
        margin = release.margin(*names)
        parts.append(margin_table(release, margin, kind.half_widths(margin), left))
        left -= margin.domain.size
        shown += 1
    if shown < len(kind.wanted()):
        parts.append(
            Note(
                f"{len(kind.wanted()) - shown:,} more margins are left out; release.to_frame() "
                "gives the cells of all."
            )
        )
    more = [Section("wanted", "The released margins, cell by cell", parts)] if parts else []
    return Section("margins", "Margins and noise", blocks, more)


def overview_of(release: AnyRelease) -> tuple[AssociationOverview, int]:
    """The pairs that a report shows, and how many it leaves out."""
    pairs = list(pairs_of(release))
    return association_overview(release, pairs[:MAX_PAIRS]), max(len(pairs) - MAX_PAIRS, 0)


def associations_section(overview: AssociationOverview, left_out: int) -> Section:
    """All pairs of factors."""
    title = "Association of each pair of factors"
    if not len(overview):
        return Section("associations", title, [Text("There are no pairs of factors to show.")])
    blocks: list[Block] = [
        Text(
            "Cramer's V is 0 for independent factors and 1 where one determines the other; what "
            "the noise adds to it is taken off. Other factors are not held fixed: an association "
            "here may vanish, or turn round, within their levels."
        ),
        associations_table(overview),
        *map(Text, overview.notes),
    ]
    if left_out:
        blocks.append(
            Note(
                f"The first {MAX_PAIRS:,} pairs are shown; dpc.association_overview(release) gives "
                f"{left_out:,} more."
            )
        )
    factors = {*overview["row"], *overview["column"]}
    if 2 < len(factors) <= MAX_DRAWN and not left_out and overview["estimate"].notna().any():
        caption = "Cramer's V of each pair of factors."
        blocks.append(drawn("pairs", caption, lambda: plots.heat_map(overview)))
    return Section("associations", title, blocks)


def gaps_section(
    kind: Kind, overview: AssociationOverview, tests: Sequence[TestResult], findings: Findings
) -> Section:
    """What could not be estimated or tested, and why."""
    title = "What could not be estimated, and why"
    found = [
        *((f"Margin of {name}", why) for name, why in kind.refused()),
        *(
            (f"Association of {line['row']} and {line['column']}", line["reason"])
            for line in overview.to_dict("records")
            if line["reason"]
        ),
        *((title_of(test), test.reason) for test in tests if test.reason),
        *(gap for fit in findings.models for gap in _gaps_of(fit)),
        *_gaps_of_findings(findings),
    ]
    if not found:
        words = "Nothing: every estimate and test that this report is made of could be computed."
        return Section("gaps", title, [Text(words)])
    rows = [[label(what), label(why)] for what, why in found[:MAX_ROWS]]
    columns = [Column("what", "What"), Column("why", "Why")]
    cut = f"{len(found) - MAX_ROWS:,} more are left out." if len(found) > MAX_ROWS else ""
    return Section("gaps", title, [Table("gaps", "Gaps and their reasons", columns, rows, 2, cut)])


def _gaps_of(fit: LogLinearResults) -> Iterator[tuple[str, str]]:
    name = f"Model {fit.generating_class}"
    if not fit.converged:
        yield f"{name}: a maximum", fit.reason
    if not fit.existence.exists:
        yield f"{name}: {', '.join(fit.existence.parameters)}", fit.existence.reason
    gof = fit.gof()
    for test in gof.index[gof["pvalue"].isna()].intersection(list(gof.notes)):
        yield f"{name}: p-value of the {test} test of fit", gof.notes[test]
    if not fit.maximises_likelihood:
        yield (
            f"{name}: AIC, BIC and the likelihood ratio",
            "the fit does not maximise the likelihood: it is penalised, or by minimum chi-square",
        )
    if not has_cells(fit):
        yield (
            f"{name}: residuals of cells",
            "margins were released, and not the cells of the joint table",
        )


def _gaps_of_findings(findings: Findings) -> Iterator[tuple[str, str]]:
    if findings.incomparable:
        yield "Likelihood ratios between the models", findings.incomparable
    if findings.chosen is None:
        return
    if findings.too_many_ratios:
        yield (
            f"Odds ratios of {findings.chosen.generating_class}",
            f"there are {findings.too_many_ratios:,} of them, too many for a report; ask for some "
            "by result.odds_ratios(row, column)",
        )
    frame = findings.odds_ratios
    if findings.unbounded:
        yield (
            "Intervals of odds ratios that the noise makes wide, or one end at 0 or infinity",
            "they are sought by refits of the model, which takes seconds for each of "
            f"{findings.unbounded:,}: result.odds_ratios() does so, if the fit maximises the "
            "likelihood",
        )
    if len(frame):
        for line in frame[frame["reason"] != ""].to_dict("records"):
            yield line["in_words"][:1].upper() + line["in_words"][1:], line["reason"]
