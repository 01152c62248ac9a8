"""Planted counts are looked for everywhere that a result, a file or a message can reach."""

import pickle
import re
import traceback

import numpy as np
import pandas as pd
import pytest

import dpcontingency as dpc

PLANTED = (7919, 10007)
# So much noise that a noisy cell prints as a planted count less than once in 10^5 runs.
LOSS = dpc.GDP(mu=1e-5)


@pytest.fixture(scope="module")
def table():
    cells = [("a", "u", 7919), ("a", "v", 31), ("b", "u", 57), ("b", "v", 10007)]
    frame = pd.DataFrame(cells, columns=["A", "B", "number"])
    domain = dpc.Domain({"A": ["a", "b"], "B": ["u", "v"]})
    return dpc.tabulate(frame, domain, weights="number")


def leaks(text):
    if isinstance(text, bytes):
        forms = [b"%d" % n for n in PLANTED]
        forms += [np.array(n, dtype=t).tobytes() for n in PLANTED for t in ("<i8", "<f8")]
    else:
        # a number of its own, not digits inside a longer one
        patterns = (rf"(?<![\d.]){f'{n:,}'.replace(',', ',?')}(?!\d)" for n in PLANTED)
        return [p for p in patterns if re.search(p, text)]
    return [form for form in forms if form in text]


def test_the_search_finds_what_is_planted(table):
    assert leaks(repr(table.counts))
    assert leaks(table.counts.tobytes())
    assert leaks("7,919 records")


def test_margins_and_what_is_read_off_the_records_show_nothing(tmp_path):
    """Numbers in a column with bins and values of a recoding are as confidential as counts."""
    frame = pd.DataFrame({"A": [7919, 10007], "B": ["7919", "10007"], "w": PLANTED})
    recode = {"B": {"7919": "u", "10007": "v"}}
    domain = dpc.Domain({"B": ["u", "v"]}, bins={"A": dpc.Bins([0, 9000, 20000])})
    options = {"weights": "w", "recode": recode}
    margins = dpc.tabulate_margins(frame, domain, [("A",), ("B",)], **options)
    assert margins.margin("A").counts.tolist() == list(PLANTED)
    release = dpc.release_table(margins.margin("A"), LOSS)
    release.save(tmp_path / "r.json")
    texts = [repr(margins), repr(release), (tmp_path / "r.json").read_text(), repr(domain)]
    narrow = dpc.Domain({"B": ["u", "v"]}, bins={"A": dpc.Bins([0, 1])})
    for call in (
        lambda: pickle.dumps(margins),
        lambda: margins.margin("A", "B"),
        lambda: dpc.tabulate(frame, narrow, **options),
        lambda: dpc.tabulate(frame, domain, weights="w"),
        lambda: dpc.tabulate_margins(frame, domain, [("B",)], weights="w"),
        lambda: dpc.tabulate(frame.assign(w=0.5), domain, **options),
        lambda: dpc.Domain.from_schema(frame),
    ):
        with pytest.raises(dpc.errors.DPContingencyError) as caught:
            call()
        texts.append("".join(traceback.format_exception_only(caught.value)))
        texts.append(pickle.dumps(caught.value))
    for text in texts:
        assert not leaks(text)


@pytest.mark.filterwarnings("ignore::dpcontingency.errors.DPContingencyWarning")
def test_nothing_that_leaves_holds_a_planted_count(table, tmp_path):
    release = dpc.release_table(table, LOSS)
    model = dpc.LogLinearModel(release, "[A][B]")
    fit = model.fit()
    test = dpc.independence_test(release, "A", "B")
    release.save(tmp_path / "release.json")
    fit.save(tmp_path / "fit.json")
    dpc.write_report(release, tmp_path / "report.html", models=[fit], tests=[test])
    texts = [
        *(repr(x) for x in (table, release, model, fit, test, release.noise, table.domain)),
        *(str(vars(x)) for x in (release, model, fit, test)),
        str(fit.summary()),
        test.summary(),
        str(release.statement()),
        release.to_frame().to_csv(),
        *((tmp_path / name).read_text() for name in ("release.json", "fit.json", "report.html")),
        *(pickle.dumps(x) for x in (release, release.margin("A"), fit.params, fit.cov_params())),
    ]
    for text in texts:
        assert not leaks(text)


def test_errors_say_nothing_of_the_counts(table, tmp_path):
    ledger = dpc.PrivacyLedger(tmp_path / "ledger", dpc.GDP(1e-6))
    bad = [
        lambda: dpc.release_table(table, dpc.GDP(-1)),
        lambda: dpc.release_table(table, LOSS, strata=["A", "B"]),
        lambda: dpc.release_table(table, LOSS, neighbours="neither"),
        lambda: dpc.release_table(table, LOSS, ledger=ledger),
        lambda: dpc.release_table(table.margin("A"), LOSS, mechanism=dpc.JamesStein()),
        lambda: dpc.release_table(table.counts, LOSS),
        lambda: dpc.ContingencyTable(table.counts, dpc.Domain({"A": ["a"]})),
        lambda: dpc.ContingencyTable(table.counts * 1.0, table.domain),
        lambda: dpc.ContingencyTable(
            table.counts,
            dpc.Domain(dict(table.domain.levels), structural_zeros=[{"A": "a", "B": "u"}]),
        ),
        lambda: pickle.dumps(table),
        lambda: table.margin("C"),
        lambda: dpc.LogLinearModel(table, "[A][B]"),
        lambda: dpc.independence_test(table, "A", "B"),
    ]
    for call in bad:
        with pytest.raises(Exception) as caught:  # noqa: PT011 -- any error must keep quiet
            call()
        shown = "".join(traceback.format_exception(caught.value))
        assert not leaks(shown)
        assert isinstance(caught.value, dpc.errors.DPContingencyError), shown
