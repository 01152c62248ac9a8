"""The printed pages: their width on every example table, digits of small numbers, headings."""

import numpy as np
import pytest

from dpcontingency.domain import Domain
from dpcontingency.inference.comparison import compare
from dpcontingency.inference.families import all_kway, mutual
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.inference.printing import WIDTH, broken, number_text
from dpcontingency.inference.selection import step
from dpcontingency.privacy.gdp import GDP
from dpcontingency.release.publish import simulate_release
from dpcontingency.release.release import Release

TABLES = ["hair_eye_color", "job_satisfaction", "titanic", "ucb_admissions"]
LONG = ["MaritalStatus", "ExtramaritalSex", "PremaritalSex"]


def width(page):
    return max(map(len, str(page).splitlines()))


def fits(release):
    classes = (mutual(release), all_kway(release, 2))
    return [LogLinearModel(release, g).fit(warn_convergence=False) for g in classes]


def check_pages(release):
    small, large = fits(release)
    pages = [fit.summary(alpha) for fit in (small, large) for alpha in (0.05, 0.001)]
    pages += [small.summary2(), large.summary2(), small.gof(), large.drop1()]
    pages += [compare(small, large), step(small, direction="forward", upper=large.generators)]
    assert [width(page) for page in pages if width(page) > WIDTH] == []
    return large


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_every_page_fits(load_table, name, neighbours):
    rng = np.random.default_rng(1)
    check_pages(simulate_release(*load_table(name), GDP(1), rng, neighbours=neighbours))


def test_long_names_stay_whole_on_a_page_that_fits():
    domain = Domain({name: ["Married or so", "Divorced, alas"] for name in LONG})
    counts = np.array([911, 538, 44, 456, 37, 43, 29, 279]).reshape(2, 2, 2)
    large = check_pages(Release.exact(counts, domain))
    lines = str(large.summary()).splitlines()
    for name in large.params.index:
        assert [line for line in lines if line.startswith(name)]
    saturated = LogLinearModel(large.model.release, [LONG]).fit()
    assert width(saturated.summary()) <= WIDTH
    assert saturated.params.index[-1] in str(saturated.summary()).replace("\n  ", "")
    assert saturated.params.index[-1] in saturated.summary().as_html()


def test_large_numbers_drop_decimals_before_columns():
    counts = np.array([[[10**12, 3 * 10**12], [10**10, 17]], [[10**13, 10**9], [5, 10**12]]])
    large = check_pages(Release.exact(counts, Domain({f: [0, 1] for f in "ABC"})))
    assert "pvalue_diff" in str(compare(*fits(large.model.release)))


def test_a_model_without_parameters_has_a_page():
    release = Release.exact([[5, 9]], Domain({"A": [0], "B": [0, 1]}))
    result = LogLinearModel(release, []).fit()
    assert "coef" in str(result.summary())
    assert str(result.summary2()) == str(result.summary())


def test_small_coefficients_have_digits(load_table):
    counts, plain = load_table("job_satisfaction")
    income = plain.names[0]
    levels = {name: list(plain.levels[name]) for name in plain.names}
    scores = {income: [7500, 20000, 32500, 60000]}
    ordered = [name for name in plain.names if name != income]
    domain = Domain(levels, ordered=ordered, scores=scores)
    first, second = plain.names[:2]
    formula = " + ".join(plain.names) + f" + score({first}):score({second})"
    result = LogLinearModel.from_formula(formula, Release.exact(counts, domain)).fit()
    name = f"score({first}):score({second})"
    coefficient, se = result.params[name], result.bse[name]
    assert abs(coefficient) < 1e-4
    for page in (result.summary(), result.summary2(), result.summary2().as_html()):
        for number in (coefficient, se):
            assert f"{number:.4g}" in str(page)
    assert "0.0000" not in str(result.summary())


@pytest.mark.parametrize("value", [3.2e-9, -1.4861e-05, 0.0009123, 0.1, -7.25, 8.4e4, 5.3e11])
@pytest.mark.parametrize("share", [1e-3, 0.5, 20])
def test_two_digits_or_more_are_printed(value, share):
    """What is printed is within 2 % of the number, or of a hundredth of its standard error."""
    se = abs(value) * share
    assert float(number_text(value, se)) == pytest.approx(value, rel=0.02, abs=0.01 * se)
    assert float(number_text(se, se)) == pytest.approx(se, rel=0.05)
    for end in (value - 2 * se, value + 2 * se):
        assert float(number_text(end, se, 3)) == pytest.approx(end, abs=0.06 * se)


@pytest.mark.parametrize(
    ("alpha", "level", "ends"),
    [
        (0.05, "[95%", ("[0.025", "0.975]")),
        (0.001, "[99.9%", ("[0.0005", "0.9995]")),
        (0.32, "[68%", ("[0.160", "0.840]")),
        (1e-6, "[99.9999%", ("[5e-07", "0.9999995]")),
    ],
)
def test_headings_say_the_level(load_table, alpha, level, ends):
    result = fits(Release.exact(*load_table("ucb_admissions")))[0]
    assert level in str(result.summary(alpha)).split()
    assert list(result.summary2(alpha).tables[1].columns[4:6]) == list(ends)


def test_lines_are_broken_after_a_character():
    text = "".join(f"[{'abc' * k} d]" for k in range(1, 12))
    lines = broken(text, "]", "  ")
    assert max(map(len, lines)) <= WIDTH
    assert all(line.endswith("]") for line in lines)
    assert "".join(line.strip() for line in lines) == text
    assert max(map(len, broken("x" * 500, "]"))) <= WIDTH
