"""Equations as MathML: browsers draw it themselves, no script and no network."""

import re

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number


def in_words(equation):
    r"""Return TeX as latex2mathml reads it: words of code keep no ``\_``."""
    words = r"\\(text|texttt|mathrm)\{([^{}]*)\}"
    return re.sub(
        words, lambda m: rf"\{m[1]}{{{m[2].replace(chr(92) + '_', '_')}}}", equation
    )


def visit_math(self, node):
    """Write an equation in a line."""
    self.body.append(convert(in_words(node.astext())))
    raise SkipNode


def visit_math_block(self, node):
    """Write an equation of its own."""
    number = ""
    if node.get("number"):
        number = f'<span class="eqno">({get_node_equation_number(self, node)})</span>'
    equation = convert(in_words(node.astext()), display="block")
    # On a narrow screen a long one scrolls, by the keyboard too.
    self.body.append(
        '<div class="math" tabindex="0" role="group" aria-label="equation">'
        f"{number}{equation}</div>"
    )
    raise SkipNode


def setup(app: Sphinx):
    """Register the renderer and choose it."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
