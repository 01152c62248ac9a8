"""Names that would move a cursor, ring a bell or turn the reading direction, wherever they show."""

import json
import re
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import dpcontingency as dpc
from dpcontingency import plots
from dpcontingency.errors import DPContingencyWarning
from tests.command_line import invoke

mpl.use("agg")

SIGNS = "\x1b[31m\x07\x9b\u202e\u2066\u061c\u200f\x00\x85\u2028"
FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
A, B, C = f"A{SIGNS}", f"B\n{SIGNS}b", f"{SIGNS}C"
LEVELS = {
    A: [f"yes{SIGNS}", f"no\n{SIGNS}"],
    B: [f"low{SIGNS}", f"{SIGNS}mid", "high"],
    C: [f"α β é 漢 🙂{SIGNS}", "\r\tother"],
}
DOMAIN = dpc.Domain(LEVELS, ordered=[B], scores={A: [0, 1]})
COUNTS = np.arange(12).reshape(2, 3, 2) ** 2 * 40 + 300


def fails_of(text, lines=True):
    """What is wrong with a text that is to be shown."""
    found = sorted({ascii(sign) for sign in FORBIDDEN.findall(text)})
    if not lines and "\n" in text:
        found.append("line break")
    return found


@pytest.fixture(scope="module")
def table():
    return dpc.ContingencyTable(COUNTS, DOMAIN)


@pytest.fixture(scope="module")
def release():
    return dpc.simulate_release(COUNTS, DOMAIN, dpc.GDP(1), np.random.default_rng(1))


@pytest.fixture(scope="module")
def margins():
    return dpc.simulate_margins(
        COUNTS, DOMAIN, [(A, B), (C,)], dpc.GDP(1), np.random.default_rng(1)
    )


@pytest.fixture(scope="module")
def objects(table, release, margins, tmp_path_factory):
    """Every kind of public object that shows names."""
    rng = np.random.default_rng(2)
    model = dpc.LogLinearModel(release, [(A, B), (C,)])
    fit = model.fit()
    full = dpc.LogLinearModel(release, [(A, B), (B, C)]).fit()
    ledger = dpc.PrivacyLedger(
        tmp_path_factory.mktemp("ledger") / f"{A.replace(chr(0), '')}.ledger",
        dpc.GDP(2),
        strata=[A],
    )
    ledger.reserve(dpc.GDP(0.1), f"what {SIGNS}", strata=[A])
    square = dpc.Release.exact([[9, 4], [3, 8]], dpc.Domain({A: LEVELS[A], C: LEVELS[A]}))
    found = {
        "domain": DOMAIN,
        "table": table,
        "counted": dpc.ConfidentialMargins([table.margin(A, B)], DOMAIN),
        "release": release,
        "released": dpc.release_table(table, dpc.GDP(1), strata=[A]),
        "exact": square,
        "integers": release.to_integer_table(),
        "margins": margins,
        "plan": margins.plan,
        "model": model,
        "fit": fit,
        "special": dpc.LogLinearModel.from_formula("`A`", dpc.Release.exact(
            [9, 4], dpc.Domain({"A": LEVELS[A]}))).fit(),
        "margin fit": dpc.LogLinearModel(release, [(A, B)]).fit(),
        "compared": dpc.compare(fit, full),
        "dropped": full.drop1(),
        "gof": fit.gof(),
        "step": dpc.step(model),
        "overview": dpc.association_overview(release),
        "bootstrap": dpc.independence_test(release, A, B, pvalue="bootstrap", n_boot=9, rng=rng),
        "test": dpc.independence_test(release, A, B, given=C),
        "homogeneity": dpc.homogeneity_test(release, A, by=C),
        "symmetry": dpc.symmetry_test(square, A, C),
        "trend": dpc.trend_test(release, A, B),
        "cmh": dpc.cmh_test(release, A, C, given=B),
        "odds": dpc.odds_ratio(release, A, C),
        "common odds": dpc.odds_ratio(release, A, C, given=B),
        "v": dpc.cramers_v(release, A, B),
        "risk": dpc.relative_risk(release, A, C),
        "gamma": dpc.gamma(release, A, B),
        "ledger": ledger,
        "noise": release.noise,
        "existence": fit.existence,
    }  # fmt: skip
    return found


def texts_of(thing):
    """All the texts that an object has for people."""
    yield "repr", repr(thing)
    yield "str", str(thing)
    for name in ("summary", "summary2"):
        if callable(getattr(thing, name, None)):
            made = getattr(thing, name)()
            yield name, str(made)
            for form in ("as_text", "as_html", "as_latex", "as_csv", "_repr_html_", "_repr_latex_"):
                if callable(getattr(made, form, None)):
                    yield f"{name}.{form}", getattr(made, form)()
    for form in ("_repr_html_", "_repr_latex_", "to_html", "to_latex"):
        if not isinstance(thing, pd.DataFrame) and callable(getattr(thing, form, None)):
            yield form, getattr(thing, form)()


def test_objects_show_signs_as_escapes(objects):
    wrong = [
        (kind, form, fails)
        for kind, thing in objects.items()
        for form, text in texts_of(thing)
        if (fails := fails_of(text, lines=form not in ("repr", "str") or "\n" in repr(thing)))
    ]
    assert not wrong
    assert r"\x1b[31m\x07\x9b\u202e\u2066\u061c" in repr(objects["domain"])
    for kind in ("domain", "table", "release", "model", "fit", "test", "odds", "ledger"):
        assert "\n" not in repr(objects[kind])


def test_errors_and_warnings_are_one_line(release):
    calls = [
        lambda: DOMAIN.axis(SIGNS),
        lambda: DOMAIN.project([A, A]),
        lambda: dpc.LogLinearModel(release, f"[{A}"),
        lambda: dpc.LogLinearModel.from_formula(A, release),
        lambda: dpc.tabulate(pd.DataFrame({"x": [1]}), DOMAIN),
        lambda: dpc.independence_test(release, A, A),
        lambda: dpc.symmetry_test(release, A, B),
        lambda: dpc.load_release(f"no {A}".replace("\0", "")),
    ]
    for call in calls:
        with pytest.raises(dpc.errors.DPContingencyError) as caught:
            call()
        assert not fails_of(str(caught.value), lines=False), str(caught.value)
    assert not fails_of(str(DPContingencyWarning(A + B)), lines=False)


@pytest.mark.filterwarnings("ignore::dpcontingency.errors.DPContingencyWarning")
@pytest.mark.parametrize("ending", ["html", "md", "json"])
def test_reports_show_signs_as_escapes(objects, tmp_path, ending):
    path = tmp_path / f"r.{ending}"
    dpc.write_report(
        objects["release"],
        path,
        models=[objects["fit"]],
        tests=[objects[kind] for kind in ("test", "bootstrap", "cmh")],
    )
    text = path.read_text(encoding="utf-8")
    assert not fails_of(text)
    assert "α β é 漢 🙂" in text
    if ending == "json":
        assert json.dumps(SIGNS)[1:-1] in json.dumps(json.loads(text))


DRAWN = {
    "mosaic": lambda objects: plots.mosaic(objects["release"]),
    "association": lambda objects: plots.association(objects["release"], A, B),
    "fourfold": lambda objects: plots.fourfold(objects["release"], A, C),
    "coefficients": lambda objects: plots.coefficients(objects["fit"]),
    "heat map": lambda objects: plots.heat_map(objects["overview"]),
    "noise": lambda objects: plots.noise_versus_signal(objects["release"]),
}


@pytest.mark.parametrize("draw", DRAWN.values(), ids=list(DRAWN))
def test_plots_draw_no_sign(objects, draw):
    drawn = draw(objects)
    figure = drawn.figure if hasattr(drawn, "figure") else np.ravel(drawn)[0].figure
    texts = [text.get_text() for text in figure.findobj(mpl.text.Text)]
    texts += [str(ax.get_label()) for ax in figure.axes]
    assert any(texts)
    assert not fails_of("".join(texts))
    assert not fails_of(plots.svg(figure))


# ------------------------------------------------------------------ the command line


def test_commands_print_by_one_door():
    """What is printed past `echo`, `echo_page`, `say` and `print_json` would not be escaped."""
    folder = Path(dpc.__file__).parent / "_commands"
    printing = re.compile(r"\btyper\.(echo|secho)\(|\bprint\(|\bstd(out|err)\.write\(")
    found = {path.name for path in folder.glob("*.py") if printing.search(path.read_text())}
    assert found == {"__init__.py", "_shared.py"}


@pytest.fixture(scope="module")
def folder(release, margins, tmp_path_factory):
    out = tmp_path_factory.mktemp("hostile")
    release.save(out / "r.json")
    margins.save(out / "m.json")
    DOMAIN.to_yaml(out / "d.yaml")
    cells = pd.MultiIndex.from_product(list(LEVELS.values())).to_frame(index=False, name=[A, B, C])
    cells.assign(n=COUNTS.ravel()).to_parquet(out / "r.parquet")
    dpc.PrivacyLedger(out / "b.ledger", dpc.GDP(9), strata=[A])
    return out


def question(*names):
    return ",".join(f"`{name}`" for name in names)


COMMANDS = {
    "release": ("release", "{}/r.parquet", "--domain", "{}/d.yaml", "--mu", 1, "--weights", "n",
                "--strata", A, "--output", "{}/o.json", "--force"),
    "margins": ("release", "{}/r.parquet", "--domain", "{}/d.yaml", "--mu", 1, "--weights", "n",
                "--margins", question(A, B), "--output", "{}/o.json", "--force"),
    "init": ("init", "{}/r.parquet", "--output", "{}/new.yaml", "--force"),
    "test": ("test", "{}/r.json", "--test", question(A, B)),
    "given": ("test", "{}/r.json", "--test", f"{question(A, B)}|{question(C)}"),
    "fit": ("fit", "{}/r.json", f"[`{A}` `{B}`][`{C}`]"),
    "report": ("report", "{}/r.json", "--output", "{}/o.html", "--force"),
    "plan": ("plan", "--domain", "{}/d.yaml", "--mu", 1, "--margins", question(A, B)),
    "privacy": ("privacy", "{}/b.ledger"),
    "unknown test": ("test", "{}/r.json", "--test", question(SIGNS, A)),
    "unknown command": (f"fit{SIGNS}",),
    "unknown option": ("fit", "{}/r.json", f"--{SIGNS}"),
    "unknown file": ("fit", f"no{SIGNS[:-3]}.json".replace("\0", ""), "[A]"),
    "no model": ("fit", "{}/r.json", f"[{SIGNS}]"),
}  # fmt: skip


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_commands_print_signs_as_escapes(folder, command, as_json):
    args = [str(arg).replace("{}", str(folder)) for arg in command]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = invoke(*args, *(["--json"] if as_json else []))
    assert result.exit_code in (0, 2), result.output
    assert not fails_of(result.stdout)
    assert not fails_of(result.stderr)
    assert len(result.stderr.splitlines()) == result.exit_code // 2
    if as_json and not result.exit_code:
        json.loads(result.stdout)
