"""The reference of the command line, made of the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from celery_saga.cli.catalogue import ALSO_CALLED
from celery_saga.cli.standalone import cli


def reference() -> str:
    """A section for each command, with its arguments, options and defaults."""
    top = click.Context(cli, info_name="celery-saga")
    return "\n".join(line for name in cli.list_commands(top) for line in _section(name, cli, top))


def _section(name: str, group: click.Group, above: click.Context, level: int = 2) -> Iterator[str]:
    command = group.get_command(above, name)
    assert command is not None, name
    context = click.Context(command, info_name=name, parent=above)
    yield f"{'#' * level} {context.command_path.removeprefix('celery-saga ')}\n"
    yield _plain(command.help)
    also = [f"`{other}`" for other, meant in ALSO_CALLED.items() if meant == name and level == 2]
    if also:
        yield f"Also called {', '.join(also)}.\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {usage}\n```\n"
    options = [each for each in command.get_params(context) if isinstance(each, click.Option) and not each.hidden]
    if options:
        yield from _table(options, context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            yield from _section(each, command, context, level + 1)


def _table(options: list[click.Option], context: click.Context) -> Iterator[str]:
    yield "| option | meaning |\n|---|---|"
    for option in options:
        record = option.get_help_record(context)
        assert record is not None
        words, meaning = (part.replace("|", "\\|").replace("\n", " ") for part in record)
        yield f"| `{words}` | {_escaped(meaning)} |"
    yield ""


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")


def _plain(text: str | None) -> str:
    """What `--help` says, as Markdown: indented examples stay as they are."""
    paragraphs = inspect.cleandoc(text or "").replace("\b\n", "").split("\n\n")
    return "\n\n".join(each if each.startswith("    ") else _escaped(each) for each in paragraphs) + "\n"
