"""Make "METHODS 2.3" in a docstring a link to that section of the methods page."""

import re

SECTION = re.compile(r"\bMETHODS (\d)\.(\d)\b")


def link(app, what, name, obj, options, lines):
    for i, line in enumerate(lines):
        if "``" not in line:
            lines[i] = SECTION.sub(r":ref:`METHODS \1.\2 <methods-\1-\2>`", line)


def setup(app):
    app.connect("autodoc-process-docstring", link, priority=900)  # after numpydoc
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
