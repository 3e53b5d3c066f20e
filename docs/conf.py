"""How the pages become a site: `sphinx-build -c docs -W --keep-going . site`, or `tox -e docs`.

The source is the whole project, so that README and the examples are pages of the site too, and a link that leads
somewhere in a checkout leads to the same page there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from _site import commands, docstrings, navigation, served  # noqa: E402 - found by the path above

project = "celery-durable-saga"
html_title = "celery-durable-saga"
copyright = "the authors of celery-durable-saga"
root_doc = "docs/index"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
include_patterns = ["*.md", "changelog.d/README.md", "docs/**", "examples/*/README.md"]
exclude_patterns = [
    *(".*", "**/.*", "site", "build", "dist"),
    *("tests", "celery_saga", "contrib_django", "changelog.d/*.*.md"),
]

myst_heading_anchors = 4
suppress_warnings = [
    "myst.header",  # a page may begin below its highest heading: the generated references do
]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
default_role = "code"
smartquotes = False
add_module_names = False
python_display_short_literal_types = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["saga.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_additional_pages = {"index": "redirect.html"}
templates_path = ["_templates"]

PAGES = {
    "docs/index": navigation.contents,
    "docs/commands": commands.reference,
    "docs/http-reference": served.reference,
}


def complete(app: Sphinx, page: str, source: list[str]) -> None:
    """Add to a page what is made from the code and from the list of pages."""
    if page in PAGES:
        source[0] = source[0] + "\n" + PAGES[page]()


def made_anew(app: Sphinx, env: object, added: object, changed: object, removed: object) -> list[str]:
    """Pages that change with something else than their own file."""
    return list(PAGES)


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("source-read", complete)
    app.connect("env-get-outdated", made_anew)
    app.connect("autodoc-process-docstring", docstrings.as_rest, priority=100)
