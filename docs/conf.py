"""Sphinx's configuration: `make docs` builds the site into build/docs, warnings as errors.

Nothing here or in the pages reaches for the network, neither while building nor when read.
"""

import inspect
import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# The package of this checkout, here and in the kernels that run the vignettes.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
sys.path[:0] = [str(HERE / "_ext"), str(ROOT)]

# A profile of the kernels' own: nobody's startup files, no history, and no word on every kernel
# about the loopback connection to it.
PROFILE = ROOT / "build" / "ipython" / "profile_default"
PROFILE.mkdir(parents=True, exist_ok=True)
(PROFILE / "ipython_kernel_config.py").write_text(
    'c.IPKernelApp.log_level = "ERROR"\nc.HistoryManager.enabled = False\n', encoding="utf-8"
)
os.environ["IPYTHONDIR"] = str(PROFILE.parent)

import dpcontingency  # noqa: E402


def members_of_modules():
    """What a user calls of the public modules: functions that draw, kinds of errors."""
    plots, errors = dpcontingency.plots, dpcontingency.errors
    functions = inspect.getmembers(plots, inspect.isfunction)
    draws = [name for name, f in functions if "ax" in inspect.signature(f).parameters]
    kinds = [name for name, kind in inspect.getmembers(errors, inspect.isclass)
             if issubclass(kind, Exception)]  # fmt: skip
    return {
        "dpcontingency.plots": [("function", name) for name in draws if name[0] != "_"],
        "dpcontingency.errors": [("exception", name) for name in kinds],
    }


project = "dpcontingency"
author = "the dpcontingency developers"
copyright = author
release = version = version_of("dpcontingency")
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "mathml",
    "command_line",
    "method_links",
    "package_digest",
    "run_times",
]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb"}  # stubs take the first
exclude_patterns = ["_ext", "_static", "_templates"]
templates_path = ["_templates"]

# The vignettes and the pages with code are run by the build, each when it is read, that is, when
# it or the package has changed (see _ext/package_digest.py); an error in one fails the build.
nb_execution_mode = "force"
nb_execution_timeout = 300  # seconds, of a cell; tests/docs looks at the time of a vignette
nb_execution_raise_on_error = True
nb_output_stderr = "warn"
nb_merge_streams = True
myst_enable_extensions = ["amsmath", "deflist", "dollarmath", "colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_context = {"members_of_modules": members_of_modules()}
autodoc_typehints = "none"  # numpydoc's sections name the types, in the words of the field
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
default_role = "autolink"
numpydoc_show_class_members = False  # autodoc lists them, see _templates/autosummary/class.rst
numpydoc_xref_param_type = False

nitpicky = True
nitpick_ignore_regex = [
    # Other projects: no inventory of theirs is fetched, so their names stay plain text.
    (r"py:.*", r"(numpy|pandas|scipy|statsmodels|matplotlib|ibis|pyarrow|collections|typing)\..*"),
]

html_theme = "pydata_sphinx_theme"
html_title = "dpcontingency"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
ALONE = ("index", "glossary", "methods", "coming-from", "protection", "command-line")
html_sidebars = {page: [] for page in ALONE}
html_theme_options = {
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    "show_prev_next": True,
}
