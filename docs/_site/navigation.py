"""Which page stands where in the navigation; a page that is named nowhere stands at the end."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]

SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Start here", ("tutorial", "tutorial-django", "concepts", "writing-sagas", "comparison")),
    ("How to", ("undo-well", "idempotency", "long-waits", "deploys", "testing", "retention", "security")),
    ("Django", ("django", "django-settings", "django-*")),
    (
        "More of the language",
        (
            *("signals", "schedules", "scopes", "pivot", "joins", "children", "transactions", "inline"),
            *("canvases", "graphs", "lanes", "versions", "declare"),
        ),
    ),
    ("Followed and steered", ("progress", "events", "consumer", "http", "flower", "opentelemetry", "logging")),
    (
        "Operations",
        (
            *("operations", "recovery", "chaos", "sizing", "performance", "servers", "upgrading"),
            *("runbook", "desk", "encryption"),
        ),
    ),
    ("Reference", ("api", "settings", "commands", "http-reference", "errors", "checks", "tables", "limits")),
)
EXAMPLES = "../examples/*/README"
LAST = (
    *("../README", "../ARCHITECTURE", "../CONTRIBUTING", "../CHANGELOG", "../changelog.d/README"),
    *("adr/README", "adr/0*"),
)


def pages(pattern: str) -> list[str]:
    """The pages of a pattern that exist, seen from docs/, in order."""
    found = sorted(path for ending in (".md", ".rst") for path in DOCS.glob(pattern + ending))
    return [path.relative_to(DOCS).with_suffix("").as_posix() for path in found]


def sections() -> list[tuple[str, list[str]]]:
    """Each heading with its pages; those that no heading names come under the heading "More"."""
    found: list[tuple[str, list[str]]] = []
    seen = {"index"}
    for heading, patterns in SECTIONS:
        its = list(dict.fromkeys(page for pattern in patterns for page in pages(pattern) if page not in seen))
        seen.update(its)
        found.append((heading, its))
    found.append(("More", sorted(set(pages("*")) - seen)))
    return [(heading, its) for heading, its in found if its]


def contents() -> str:
    """The directives that Sphinx makes the navigation of."""
    last = [page for pattern in LAST for page in _outside(pattern)]
    every = [*sections(), ("Examples", _outside(EXAMPLES)), ("The project", last)]
    return "\n".join(
        f"```{{toctree}}\n:hidden:\n:caption: {heading}\n\n" + "\n".join(its) + "\n```\n" for heading, its in every
    )


def _outside(pattern: str) -> list[str]:
    if not pattern.startswith("../"):
        return pages(pattern)
    found = sorted(DOCS.parent.glob(pattern.removeprefix("../") + ".md"))
    return ["../" + path.relative_to(DOCS.parent).with_suffix("").as_posix() for path in found]
