"""Write `docs/reference/cli.md`: every command with its arguments and options.

Run it after a change of a command:

    python tools/make_cli_page.py
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from perdure.cli.exit_codes import ExitCode
from perdure.cli.main import SECTIONS, cli
from perdure.cli.settings import KNOWN
from perdure.client.reading.filters import FILTER_WORDS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"

COMMON = {"--store", "--output", "--json", "--jsonl", "--where", "--target", "--watch"}
"""Options that many commands have, and that are described once."""

HEAD = """# The command

Made by `tools/make_cli_page.py`; `tests/cli/test_pages.py` compares it with the code.
[Look and act](../look-and-act.md) shows the commands at work.

Data goes to standard output, everything else to standard error. No command needs a worker, and
only `migrate`, `worker` and `demo` make a store. What comes from a store is shown with its control
characters escaped. A length of time is written `500ms`, `30s`, `1h30m`, `2d`.
"""

SETTINGS = """## Settings

A flag counts before the environment, that before `[tool.perdure]` in the `pyproject.toml` of this
folder or the nearest one above it, and that before the default. Relative paths in the file count
from its folder. `perdure config` shows each value and where it comes from.
"""

FORMS = """## Forms of an answer

`-o FORM` or `--output FORM`; without it a table on a terminal and `tsv` elsewhere. `NO_COLOR` is
respected. Points in time are relative in a table and ISO 8601 in UTC elsewhere.

| form | is |
|---|---|
| `table` | columns for people, long cells cut |
| `wide` | the same with every column, nothing cut |
| `tsv` | every column, with tabs between, without headings |
| `csv` | every column, with headings; a `'` before what a spreadsheet would take for a formula |
| `json` | one document, every field; also `--json` |
| `jsonl` | one object per line; also `--jsonl` |
| `ids` | the first column alone |

What `json` has of a thing is what the [HTTP API](http.md) answers. A list is a bare array here;
there a long one is a page, with `items` and `next`, and one of instances has their inputs and
outputs with `payloads=true`.

`--watch` lets a list go on: drawn again on a terminal; in a pipe, rows that are new or changed.
"""

FILTERS = """## Filters

`--where FILTER`, and the arguments of `perdure list`: words that must all hold. A value with a
space is in quotes: `name:"two words"`. Commands that act refuse an empty filter, ask before they
hit more than one instance, and without a terminal need `--yes`. Instead of a filter they take ids,
or `-` for ids on standard input: the first word of each line, so that what `perdure list` prints
can be read.
"""


def make() -> str:
    """Return the page."""
    parts = [HEAD, *_settings(), FORMS, *_words(), *_codes()]
    for section, commands in SECTIONS.items():
        parts.append(f"## {section}\n")
        for name in commands:
            parts += _command(_found(name), f"perdure {name}")
    return "\n".join(parts)


def _settings() -> Iterator[str]:
    yield SETTINGS
    yield "| flag | environment | `[tool.perdure]` | default | meaning |\n|---|---|---|---|---|"
    for name, known in KNOWN.items():
        default = f"`{known.default}`" if known.default else ""
        yield f"| `{known.flag}` | `{known.variable}` | `{name}` | {default} | {known.meaning} |"
    yield ""


def _words() -> Iterator[str]:
    yield FILTERS
    yield "| word | means |\n|---|---|"
    for word, (_, meaning) in FILTER_WORDS.items():
        yield f"| `{word}:` | {meaning} |"
    yield ""


def _codes() -> Iterator[str]:
    yield "## Exit codes\n"
    yield "| code | means |\n|---|---|"
    meanings = _docstrings(ExitCode)
    for code in ExitCode:
        yield f"| {int(code)} | {meanings[code.name]} |"
    yield ""


def _docstrings(kind: type) -> dict[str, str]:
    """Return what is written below each member of an enumeration."""
    source = inspect.getsource(kind)
    found = re.findall(r'^    ([A-Z_]+) = \d+\n    """(.*?)"""', source, re.DOTALL | re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _found(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def _command(command: click.Command, path: str) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield f"### `{path}`\n"
    yield from _help(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _command(below, f"{path} {name}")
        return
    arguments = [_argument(one) for one in command.params if isinstance(one, click.Argument)]
    yield f"```text\n{' '.join([path, '[OPTIONS]', *arguments])}\n```\n"
    options = [one for one in command.params if isinstance(one, click.Option)]
    own = [one for one in options if not COMMON & set(one.opts)]
    if own:
        yield "| option | |\n|---|---|"
        for one in own:
            yield _option(one)
        yield ""
    common = [max(one.opts, key=len) for one in options if COMMON & set(one.opts)]
    if common:
        yield f"And {', '.join(f'`{name}`' for name in common)}.\n"


def _help(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield " ".join(paragraph.split()) + "\n"


# What click itself makes of these differs from release to release.


def _argument(argument: click.Argument) -> str:
    if argument.metavar:
        return argument.metavar
    name = (argument.name or "").upper()
    return name if argument.required else f"[{name}]"


def _option(option: click.Option) -> str:
    words = [", ".join(option.opts)]
    if not option.is_flag:
        words.append(option.metavar or _kind(option.type))
    meaning = " ".join((option.help or "").split())
    assert meaning, f"{option.opts} has no help"
    if option.show_default:
        meaning += f" [default: {option.default}]"
    return f"| `{' '.join(words)}` | {meaning} |"


def _kind(kind: Any) -> str:
    if isinstance(kind, click.Choice):
        return ", ".join(map(str, kind.choices))
    if isinstance(kind, click.types.IntParamType):
        return "N"
    return {"text": "TEXT", "float": "NUMBER", "duration": "DURATION", "file": "FILE"}[kind.name]


def main() -> None:
    """Write the page."""
    PAGE.write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
