"""The two laws of the house, read from the syntax tree: imports go down only, and inference and
reports cannot reach confidential counts.

Nothing is imported here, so a law is checked for code that never runs too. The second half plants
each violation in a small source and requires the checkers to report it.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

PACKAGE = "dpcontingency"
ROOT = Path(__file__).resolve().parents[1]

# A module may import from its own floor and from the floors below it. A package's name stands for
# its __init__.
FLOORS = {
    "errors": 0,
    "_labels": 0,
    "_arrays": 0,
    "_lazy": 0,
    "_paths": 0,
    "_writing": 0,
    "_declared": 0,
    "_schema": 0,
    "_yaml": 0,
    "_watch": 0,
    "_records": 0,
    "bins": 0,
    "domain": 0,
    "privacy": 0,
    "privacy.gdp": 0,
    "privacy.neighbours": 0,
    "privacy.ledger": 0,
    "privacy.stamp": 0,
    "_demo_data": 0,
    "_language": 0,
    # counts and noise
    "table": 1,
    "release.sampler": 1,
    "release.contrasts": 1,
    "release.noise": 1,
    "release.shrinkage": 1,
    "release.bases": 1,
    "release.options": 1,
    "release.laplace": 1,
    "release.sensitivity": 1,
    "release.files": 1,
    "release.exports": 1,
    "release.integers": 1,
    # what turns counts into noisy counts
    "_weights": 2,
    "_counting": 2,
    "tabulate": 2,
    "_draft": 2,
    "release.mechanisms": 2,
    "release.comparison": 2,
    "release.layout": 2,
    "release.scales": 2,
    "release.workload": 2,
    # the wall: what comes out of it is public
    "release": 3,
    "release.plausible": 1,
    "release.contents": 3,
    "release.release": 3,
    "release.publish": 3,
    "release.combine": 3,
    "release.margins": 3,
    "release.reading": 1,
    "release.measurements": 3,
    "release.publish_margins": 3,
    # likelihood of a release
    "inference.hidden_sum": 4,
    "inference.kernels": 4,
    "inference.lattice": 4,
    "inference.lowrank": 4,
    "inference.quotient": 4,
    "inference.inverse": 4,
    "inference.points": 4,
    "inference.likelihood": 4,
    "inference.curvature": 4,
    "inference.margin_space": 4,
    "inference.interactions": 4,
    "inference.junction": 4,
    "inference.space": 4,
    "inference.cells": 4,
    "inference.columns": 4,
    "inference.design": 4,
    "inference.terms": 4,
    "inference.parameters": 4,
    "inference.formula": 4,
    "inference.families": 4,
    "inference.existence": 4,
    "inference.limits": 4,
    "inference.newton": 4,
    "inference.maxima": 4,
    "inference.replicates": 4,
    "inference.margin_replicates": 4,
    "inference.gaussian": 4,
    "inference.normal": 4,
    "inference.penalty": 4,
    "inference.rows": 4,
    "inference.profile": 4,
    "inference.noncentral": 4,
    "inference.scores": 4,
    "inference.residuals": 4,
    "inference.constraints": 4,
    "inference.prediction": 4,
    "inference.odds": 4,
    # results, then what makes them
    "inference.printing": 5,
    "inference.calibration": 5,
    "inference.bootstrap": 5,
    "inference.statistic": 5,
    "inference.pvalues": 5,
    "inference.tables": 5,
    "inference.comparison": 5,
    "inference.common_table": 5,
    "inference.fits": 4,
    "inference.outcome": 4,
    "inference.wide": 4,
    "inference.held": 5,
    "inference.coefficients": 5,
    "inference.cell_results": 5,
    "inference.results": 5,
    "inference.loglinear": 6,
    "inference.testresult": 5,
    "inference.nested": 6,
    "inference.hypothesis": 6,
    "inference.association_tests": 6,
    "inference.square_tests": 6,
    "inference.naive": 6,
    "inference.selection": 6,
    "inference.order_tests": 6,
    "inference.layouts": 6,
    "inference.association": 6,
    "inference.risks": 6,
    "inference.ordinal": 6,
    "inference.strength": 6,
    "inference.inversion": 5,
    "inference.surface": 5,
    "inference.overview": 6,
    "inference.saturated": 6,
    "inference.contour": 5,
    "inference.estimates": 4,
    "inference.planning": 6,
    "inference.nulls": 6,
    "inference.questions": 6,
    "inference.plans": 6,
    "inference": 6,
    # what people see
    "report": 7,
    "report.parts": 7,
    "report.numbers": 7,
    "report.pictures": 7,
    "report.fit_tables": 7,
    "report.findings": 7,
    "report.kinds": 7,
    "report.sections": 7,
    "report.guarantee": 7,
    "report.html": 7,
    "report.markdown": 7,
    "report.machine": 7,
    "report.words": 7,
    "report.tables": 7,
    "report.reproduction": 7,
    "report.plain": 7,
    "report.drawing": 7,
    "report.edges": 7,
    "report.residuals": 7,
    "report.mosaic": 7,
    "report.curves": 7,
    "report.forest": 7,
    "report.association": 7,
    "report.fourfold": 7,
    "report.noise": 7,
    "report.heat_map": 7,
    "report.plots": 7,
    "report.document": 7,
    "_commands": 7,
    "_commands._shared": 7,
    "_commands._plain": 7,
    "_commands._curve": 7,
    "_commands.init": 7,
    "_commands.plan": 7,
    "_commands.release": 7,
    "_commands.test": 7,
    "_commands.fit": 7,
    "_commands.report": 7,
    "_commands.privacy": 7,
    "_commands.demo": 7,
    "cli": 7,
    # the public names
    "": 8,
    "__main__": 8,
}

PLANNED = tuple(f"{PACKAGE}.{name}".rstrip(".") for name in FLOORS)

# Packages that an extra installs, or that only a test or a benchmark has.
OPTIONAL = frozenset({"polars", "pyspark", "mbi"})

CONFIDENTIAL = tuple(
    f"{PACKAGE}.{name}"
    for name in (
        "_records",
        "_counting",
        "table",
        "tabulate",
        "release.mechanisms",
        "release.publish",
        "release.publish_margins",
    )
)
BEHIND_THE_WALL = tuple(f"{PACKAGE}.{name}" for name in ("inference", "report"))

# The one place where a module may be imported by a name that it is given.
LATER = f"{PACKAGE}._lazy"

LOADS_LATER = (PACKAGE, f"{PACKAGE}._commands", LATER)

IMPORTERS = frozenset(
    {"importlib.import_module", "__import__", "builtins.__import__", f"{LATER}.later"}
)
UNREADABLE = "<a name that is computed>"


# ------------------------------------------------------------------ reading what is imported


@dataclass(frozen=True)
class Import:
    """One import: where it stands and each dotted name that it reaches."""

    line: int
    names: tuple[str, ...]
    in_function: bool


@dataclass
class Module:
    """A module's syntax tree, and what each of its names stands for."""

    name: str
    tree: ast.Module
    is_package: bool
    bound: dict[str, str] = field(default_factory=dict)

    @property
    def anchor(self) -> str:
        """The package that a relative import starts from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


class House:
    """All modules of the package, by dotted name, and the imports between them."""

    def __init__(self, sources: dict[str, str], packages: Iterable[str] = ()):
        parents = {name.rpartition(".")[0] for name in sources} | set(packages)
        self.modules = {
            name: Module(name, ast.parse(text, filename=name), name in parents)
            for name, text in sources.items()
        }
        for module in self.modules.values():
            module.bound = dict(_bindings(module))

    @classmethod
    def read(cls, root: Path) -> "House":
        """Read every module under ``root``, the folder that holds the package."""
        sources, packages = {}, []
        for path in sorted((root / PACKAGE).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
                packages.append(".".join(parts))
            sources[".".join(parts)] = path.read_text(encoding="utf-8")
        return cls(sources, packages)

    def imports(self, module: Module) -> list[Import]:
        """List the imports of a module, re-exported names followed to where they come from."""
        return [
            Import(line, tuple(sorted(self._follow(names))), in_function)
            for line, names, in_function in _found(module)
        ]

    def modules_of(self, imported: Import) -> set[str]:
        """The modules of the house that an import reaches."""
        return {owner for name in imported.names if (owner := self._owner(name)) is not None}

    def _owner(self, name: str) -> str | None:
        """The longest part of a dotted name that is a module of the house, written or planned."""
        while name and name not in self.modules and name not in PLANNED:
            name = name.rpartition(".")[0]
        return name or None

    def _follow(self, names: Iterable[str]) -> set[str]:
        """Add to each dotted name the names that it stands for where it is defined."""
        followed: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in followed:
                continue
            followed.add(name)
            owner = self._owner(name)
            if owner not in self.modules or owner == name:
                continue
            attribute, _, rest = name[len(owner) + 1 :].partition(".")
            bound = self.modules[owner].bound
            origins = [to for it, to in bound.items() if attribute in (it, "*")]
            waiting += [f"{origin}.{rest}".rstrip(".") for origin in origins]
        return followed


def _source_of(module: Module, node: ast.ImportFrom) -> str:
    """The dotted name after ``from``, the dots of a relative import resolved."""
    if node.level == 0:
        return node.module or ""
    base = module.anchor.split(".")
    base = base[: len(base) - (node.level - 1)]
    return ".".join([*base, node.module] if node.module else base)


def _bindings(module: Module) -> Iterator[tuple[str, str]]:
    """Each name that an import binds anywhere in the module, with the dotted name it stands for."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    yield alias.asname, alias.name
                else:
                    yield alias.name.partition(".")[0], alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            source = _source_of(module, node)
            for alias in node.names:
                yield alias.asname or alias.name, f"{source}.{alias.name}"


def _dotted(module: Module, node: ast.expr) -> str | None:
    """The dotted name that ``a.b.c`` stands for, if ``a`` was imported or is a builtin."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    root = module.bound.get(node.id, node.id if hasattr(builtins, node.id) else None)
    return None if root is None else ".".join([root, *attributes])


def _found(module: Module) -> Iterator[tuple[int, list[str], bool]]:
    """Every import of a module: its line, the dotted names it reaches, whether in a function."""
    for node, in_function in _walk(module.tree, in_function=False):
        if isinstance(node, ast.Import):
            yield node.lineno, [alias.name for alias in node.names], in_function
        elif isinstance(node, ast.ImportFrom):
            source = _source_of(module, node)
            yield node.lineno, [f"{source}.{alias.name}" for alias in node.names], in_function
        elif isinstance(node, ast.Call) and _dotted(module, node.func) in IMPORTERS:
            yield node.lineno, _called(module, node), in_function
        elif isinstance(node, ast.Attribute):
            # dpcontingency.release.mechanisms, after no more than `import dpcontingency.release`.
            # It is no import of its own, so where it stands does not matter.
            name = _dotted(module, node)
            if name is not None and name.startswith(f"{PACKAGE}."):
                yield node.lineno, [name], False


def _walk(node: ast.AST, *, in_function: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        yield child, in_function
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _walk(child, in_function=in_function or is_function)


def _called(module: Module, call: ast.Call) -> list[str]:
    """The dotted names that a call of import_module or __import__ reaches."""
    is_dunder = (_dotted(module, call.func) or "").endswith("__import__")
    order = ("name", "globals", "locals", "fromlist", "level") if is_dunder else ("name", "package")
    given = dict(zip(order, call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    package = given.get("package")
    try:
        name = ast.literal_eval(given["name"])
        level = ast.literal_eval(given["level"]) if "level" in given else 0
        fromlist = ast.literal_eval(given["fromlist"]) if "fromlist" in given else ()
        if package is None or (isinstance(package, ast.Name) and package.id == "__package__"):
            anchor = module.anchor
        else:
            anchor = ast.literal_eval(package)
        full = resolve_name("." * level + name, anchor)
    except (ValueError, TypeError, AttributeError, KeyError, ImportError):
        return [UNREADABLE]
    return [full, *(f"{full}.{item}" for item in fromlist or ())]


# ------------------------------------------------------------------ the laws


def _short(name: str) -> str:
    return name.removeprefix(PACKAGE).removeprefix(".")


def _within(name: str, roots: Iterable[str]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def modules_without_a_floor(house: House) -> list[str]:
    """Modules that the table of floors does not know."""
    return [
        f"{name} has no floor: give it one in FLOORS, tests/test_architecture.py"
        for name in house.modules
        if _short(name) not in FLOORS
    ]


def upward_imports(house: House) -> list[str]:
    """Imports of a module that stands on a higher floor."""
    found = []
    for module in house.modules.values():
        own = FLOORS.get(_short(module.name))
        for imported in house.imports(module):
            for target in sorted(house.modules_of(imported)):
                floor = FLOORS.get(_short(target))
                if own is not None and floor is not None and floor > own:
                    found.append(
                        f"{module.name}:{imported.line} (floor {own}) imports {target} "
                        f"(floor {floor}): imports go down only"
                    )
    return found


def import_cycles(house: House) -> list[str]:
    """A circle of imports, if there is one."""
    graph = {
        module.name: {
            target
            for imported in house.imports(module)
            for target in house.modules_of(imported) - {module.name}
        }
        for module in house.modules.values()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " <- ".join(error.args[1])
        return [f"modules import each other in a circle: {circle}"]
    return []


def imports_in_functions(house: House) -> list[str]:
    """Imports inside a function of anything but an optional dependency.

    The public names are free to load when they are first asked for (PEP 562), and so are commands,
    whose help and completion must not wait for what a fit needs, and what `later` stands for, which
    is read where `later` is called.
    """
    return [
        f"{module.name}:{imported.line} imports {', '.join(imported.names)} inside a function: "
        "only an optional dependency may stand there; move it to the top of the module"
        for module in house.modules.values()
        for imported in house.imports(module)
        if imported.in_function
        and module.name not in LOADS_LATER
        and not all(name.partition(".")[0] in OPTIONAL for name in imported.names)
    ]


def breaches_of_the_wall(house: House) -> list[str]:
    """Imports, under inference/ or report/, of what holds confidential counts."""
    found = []
    for module in house.modules.values():
        if not _within(module.name, BEHIND_THE_WALL):
            continue
        for imported in house.imports(module):
            for name in imported.names:
                if _within(name, CONFIDENTIAL):
                    found.append(
                        f"{module.name}:{imported.line} reaches {name}: nothing behind the "
                        "privacy wall may touch confidential counts"
                    )
                elif name == UNREADABLE:
                    found.append(
                        f"{module.name}:{imported.line} imports {UNREADABLE}: nobody can see that "
                        "it keeps to its side of the privacy wall; write the name out"
                    )
    return found


LAWS = (
    modules_without_a_floor,
    upward_imports,
    import_cycles,
    imports_in_functions,
    breaches_of_the_wall,
)


@pytest.fixture(scope="module")
def house():
    return House.read(ROOT)


def test_the_house_is_read(house):
    assert f"{PACKAGE}.errors" in house.modules
    assert any(house.imports(module) for module in house.modules.values())


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law, house):
    violations = law(house)
    assert not violations, "\n".join(violations)


# ------------------------------------------------------------------ the checkers can fail


# Every module of the table, empty: a planted source replaces one of them.
EMPTY = dict.fromkeys(PLANNED, "")


def planted(**sources: str) -> House:
    """A house of empty modules but for these; ``__`` in a name stands for the dot."""
    return House(EMPTY | {f"{PACKAGE}.{k.replace('__', '.')}": v for k, v in sources.items()})


def lines(violations: list[str]) -> list[str]:
    """The module and line at the head of each violation."""
    return [violation.removeprefix(f"{PACKAGE}.").partition(" ")[0] for violation in violations]


def test_an_empty_house_breaks_no_law():
    assert [law(planted()) for law in LAWS] == [[]] * len(LAWS)


def test_a_sound_house_breaks_no_law():
    house = planted(
        privacy="from .gdp import GDP",
        privacy__gdp="import math\nfrom ..errors import PrivacyError",
        table="from dpcontingency.domain import Domain",
        tabulate="from .table import ContingencyTable\n\ndef count():\n    import polars as pl",
        release="from .mechanisms import Gaussian\nfrom .release import Release",
        release__release="from . import mechanisms, noise\nfrom .. import domain, tabulate",
        inference__results="from ..release import Release\nfrom . import kernels",
        inference__loglinear="from .results import X\nimport dpcontingency.release.noise as n\nn.f",
        report__document="import importlib\nimportlib.import_module('json')",
    )
    assert [law(house) for law in LAWS] == [[]] * len(LAWS)


def test_a_module_off_the_table_is_told_to_take_a_floor():
    (violation,) = modules_without_a_floor(planted(release__helix=""))
    assert violation.startswith("dpcontingency.release.helix has no floor: give it one")


@pytest.mark.parametrize(
    "source",
    [
        "from .release import Release",
        "from . import release",
        "from . import x, release",
        "from .release.release import Release",
        "from dpcontingency import release",
        "from dpcontingency import Release",
        "import dpcontingency",
        "import dpcontingency.release",
        "import dpcontingency.release as r",
        "import math, dpcontingency.cli",
        "if TYPE_CHECKING:\n    from .release import Release",
        "try:\n    from .release import Release\nexcept ImportError:\n    pass",
        "class C:\n    from .release import Release",
        "def f():\n    from .release import Release",
        "import importlib\nr = importlib.import_module('dpcontingency.release')",
        "from importlib import import_module as load\nr = load('.release', __package__)",
        "r = __import__('dpcontingency.release')",
        "r = __import__('release', level=1)",
        "from ._lazy import later\nr = later('dpcontingency.release')",
    ],
)
def test_an_upward_import_is_seen(source):
    found = lines(upward_imports(planted(table=source)))
    assert set(found) <= {f"table:{n}" for n in (1, 2, 3)}
    assert found


def test_an_upward_import_from_inside_a_package_is_seen():
    # In a package's __init__ one dot is the package itself; in its modules it is their package.
    house = planted(
        privacy="from .gdp import GDP\nfrom .. import cli",
        privacy__gdp="from ..cli import main",
        release__noise="from . import sampler\n\nfrom . import mechanisms",
    )
    assert lines(upward_imports(house)) == ["privacy:2", "privacy.gdp:1", "release.noise:3"]


@pytest.mark.parametrize(
    "sources",
    [
        {"errors": "from . import domain", "domain": "from . import errors"},
        {
            "errors": "from .domain import Domain",
            "domain": "import dpcontingency.privacy.gdp",
            "privacy__gdp": "from .. import errors",
        },
        {"privacy": "from .gdp import GDP", "privacy__gdp": "from . import GDP"},
        {"errors": "from . import domain", "domain": "def f():\n    from . import errors"},
    ],
)
def test_a_circle_of_imports_is_seen(sources):
    (violation,) = import_cycles(planted(**sources))
    assert all(f"{PACKAGE}.{name.replace('__', '.')}" in violation for name in sources)


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    import math",
        "async def f():\n    from .errors import X",
        "class C:\n    def f(self):\n        if self:\n            import numpy.linalg",
        "def f():\n    import polars, math",
        "def f():\n    import polars_like",
        "def f():\n    return __import__('math')",
        "f = lambda: __import__('math')",
        "from ._lazy import later\ndef f():\n    return later('math')",
        "import importlib as i\ndef f(name):\n    return i.import_module(name)",
    ],
)
def test_an_import_in_a_function_is_seen(source):
    (violation,) = imports_in_functions(planted(tabulate=source))
    assert "inside a function" in violation


@pytest.mark.parametrize(
    "source",
    [
        "import math\ntry:\n    import numpy\nfinally:\n    pass",
        "def f():\n    import polars as pl",
        "def f():\n    from pyspark.sql import DataFrame",
        "import importlib\ndef f():\n    return importlib.import_module('mbi')",
        "import dpcontingency.errors\ndef f():\n    return dpcontingency.errors.X",
    ],
)
def test_an_optional_dependency_may_stand_in_a_function(source):
    assert imports_in_functions(planted(tabulate=source)) == []


BREACHES = [
    "from dpcontingency import table",
    "from dpcontingency import tabulate as t",
    "from dpcontingency.table import ContingencyTable",
    "from ..table import ContingencyTable",
    "from .. import errors, tabulate",
    "from ..release import mechanisms",
    "from ..release.mechanisms import Gaussian",
    "import dpcontingency.tabulate",
    "import dpcontingency.release.mechanisms",
    "import dpcontingency.release.mechanisms as m",
    "if TYPE_CHECKING:\n    from ..table import ContingencyTable",
    "def f():\n    from ..table import ContingencyTable",
    "import importlib\nimportlib.import_module('dpcontingency.table')",
    "import importlib\nimportlib.import_module('..table', __package__)",
    "import importlib as i\ni.import_module(package='dpcontingency.release', name='.mechanisms')",
    "from importlib import import_module as i\ni('.table', package=__name__.partition('.')[0])",
    "import importlib as i\ndef f(name):\n    return i.import_module('dpcontingency.' + name)",
    "from importlib import import_module as load\nload('dpcontingency.table')",
    "__import__('dpcontingency.table')",
    "__import__('dpcontingency', fromlist=['table'])",
    "__import__('table', globals(), locals(), (), 2)",
    "__import__(NAME)",
    "import builtins\nbuiltins.__import__('dpcontingency.tabulate')",
    "from .._lazy import later\nlater('dpcontingency.table')",
    "from dpcontingency import _lazy\n_lazy.later(NAME)",
    # Through something that may be imported.
    "import dpcontingency.release\ndpcontingency.release.mechanisms.Gaussian",
    "from .. import release\ndef f():\n    return release.mechanisms.Gaussian",
    "from ..release import Gaussian",
    "from ..release import *",
    "from ..release.release import ContingencyTable",
    "from ..release import release\nrelease.ContingencyTable",
]


@pytest.mark.parametrize("source", BREACHES)
@pytest.mark.parametrize("place", ["inference__loglinear", "report__document"])
def test_a_breach_of_the_wall_is_seen(place, source):
    house = planted(
        release="from .mechanisms import Gaussian\nfrom .release import Release",
        release__release="from ..table import ContingencyTable",
        **{place: source},
    )
    found = lines(breaches_of_the_wall(house))
    assert found
    assert {line.partition(":")[0] for line in found} == {place.replace("__", ".")}


@pytest.mark.parametrize("source", ["from . import table", "from .table import ContingencyTable"])
def test_a_breach_in_a_package_init_is_seen(source):
    assert breaches_of_the_wall(planted(inference=source)) == []  # inference.table, not table
    assert breaches_of_the_wall(planted(inference=source.replace("from .", "from ..", 1)))


def test_the_wall_stands_before_what_it_keeps_out_is_written():
    house = House({PACKAGE: "", f"{PACKAGE}.inference.design": "from ..table import X"})
    assert lines(breaches_of_the_wall(house)) == ["inference.design:1"]


def test_what_is_on_this_side_of_the_wall_is_free():
    source = "from ..release import Release\nfrom ..release.noise import law\nimport table\n"
    house = planted(
        release="from .release import Release",
        release__release="from ..table import ContingencyTable",
        inference__loglinear=source,
    )
    assert breaches_of_the_wall(house) == []
    assert breaches_of_the_wall(planted(release__release="from .. import table, tabulate")) == []
