"""The documentation site: Sphinx with Markdown pages. Built by `make docs` into site/, which opens without a network."""

from __future__ import annotations

import sys

from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

import hyperspn

sys.path.insert(0, str(Path(__file__).parent))
from formulas import set_formulas

project = "hyperspn"
author = "the hyperspn developers"
version = release = hyperspn.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
suppress_warnings = ["myst.header"]

html_theme = "furo"
html_title = "hyperspn"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sphinx = False
html_show_copyright = False

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_use_rtype = False

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True


def math(display: str) -> tuple[Any, None]:
    """Writes formulas as MathML, which browsers show by themselves."""

    def visit(translator: Any, node: nodes.Element) -> None:
        translator.body.append(convert(node.astext(), display=display))
        raise nodes.SkipNode

    return visit, None


def setup(app: Sphinx) -> None:
    app.connect(
        "autodoc-process-docstring", lambda app, what, name, obj, options, lines: set_formulas(lines), priority=1
    )
    app.add_html_math_renderer("mathml", math("inline"), math("block"))
