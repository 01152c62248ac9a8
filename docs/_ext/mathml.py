"""Formulas as MathML, which browsers draw themselves: no script, and none from elsewhere."""

from html import escape

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)


def mathml(node, *, as_block):
    """A formula; of one that cannot be read a warning, where an exception would cost its page.

    A page whose writing fails in one of several processes is left out without a word.
    """
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        LOGGER.warning("%s", error, location=node)
        return escape(node.astext())


def visit_inline(self, node):
    self.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_block(self, node):
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    self.body.append(mathml(node, as_block=True))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
