"""The `perdure` command.

The commands are listed here and written in `perdure.cli.commands`. One is imported when it is used,
so that help and completion stay quick: they load nothing but click and this list.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import click

PACKAGE = "perdure.cli.commands"


class ListedCommand(NamedTuple):
    """A command as `perdure --help` shows it."""

    file: str
    """The module of `perdure.cli.commands` that has it, under its own name."""
    help: str


SECTIONS: dict[str, dict[str, ListedCommand]] = {
    "Begin": {
        "demo": ListedCommand("begin", "Run an order, kill its worker, and see it go on."),
        "new": ListedCommand("begin", "Write a first program to a file."),
        "check": ListedCommand("check", "Look for what cannot be replayed in the code."),
        "dev": ListedCommand("serve", "Run definitions, pages and reload in one command."),
        "worker": ListedCommand("serve", "Run definitions until SIGTERM or Ctrl-C."),
        "ui": ListedCommand("pages", "Serve the web pages and the HTTP API of a store."),
        "mcp": ListedCommand("pages", "Let a model look into a store, over pipes."),
    },
    "Look": {
        "list": ListedCommand("look", "List instances, newest first."),
        "show": ListedCommand("look", "Show where an instance stands."),
        "explain": ListedCommand("look", "Say why an instance does not move."),
        "history": ListedCommand("histories", "Print what is recorded of an instance."),
        "tree": ListedCommand("look", "Show an instance and everything below it."),
        "tail": ListedCommand("follow", "Print events as they are recorded, to the end."),
        "stream": ListedCommand("streams", "Print what instances and activities have sent."),
        "watch": ListedCommand("follow", "Watch instances live, with progress bars."),
        "wait": ListedCommand("follow", "Wait for instances to end, and print their results."),
        "diff": ListedCommand("histories", "Compare two histories."),
        "inbox": ListedCommand("jobs", "What an instance has not taken yet; drop it."),
        "stats": ListedCommand("overview", "Say how much is stored for instances."),
        "decider": ListedCommand(
            "deciders", "Events, state and keys of deciders; inputs for them."
        ),
        "kv": ListedCommand("asking", "Print what an instance keeps under its keys."),
        "query": ListedCommand("asking", "Compute a view of an instance's variables."),
        "job": ListedCommand("jobs", "Look at jobs, and mend what got stuck."),
        "queues": ListedCommand("overview", "List what waits, and who takes it."),
        "workers": ListedCommand("overview", "List the workers that live."),
        "sessions": ListedCommand("overview", "List the sessions, and who has them."),
        "schedule": ListedCommand("schedules", "Look at schedules, and steer them."),
        "projection": ListedCommand("projections", "Look at projections, and steer them."),
    },
    "Act": {
        "start": ListedCommand("starting", "Start an instance of an orchestration."),
        "signal": ListedCommand("act", "Send a signal to instances."),
        "promise": ListedCommand("promises", "Keep or reject a promise by its token."),
        "update": ListedCommand("asking", "Ask an instance, and print its answer."),
        "cancel": ListedCommand("act", "Ask instances to stop."),
        "terminate": ListedCommand("act", "Stop instances now; their code is not asked."),
        "unpark": ListedCommand("act", "Let parked or blocked instances be tried again."),
        "restart": ListedCommand("act", "Start instances again that have ended."),
        "reset": ListedCommand("repair", "Let instances go on from an earlier point."),
        "fork": ListedCommand("repair", "Start an instance from a point of another one."),
        "retry": ListedCommand("act", "Put the dead jobs of instances back into their queues."),
        "delete": ListedCommand("removal", "Delete instances, with everything below them."),
    },
    "Store": {
        "db": ListedCommand("database", "Look after the database."),
        "doctor": ListedCommand("database", "Check what matters, and say what to do."),
        "export": ListedCommand("histories", "Write histories to a file, as JSON lines."),
        "import": ListedCommand("histories", "Bring ended histories of a file into a store."),
        "migrate": ListedCommand("database", "Bring the tables of a store up to date."),
        "replay": ListedCommand("replay", "Run the code on disk against recorded histories."),
        "roles": ListedCommand("database", "Print SQL that makes roles for PostgreSQL."),
        "sql": ListedCommand("database", "Ask the database something, read-only."),
        "token": ListedCommand("tokens", "Make a token for a program, printed once."),
    },
    "This command": {
        "completion": ListedCommand("about", "Print the completion script of a shell."),
        "config": ListedCommand("about", "Show the settings, and where each comes from."),
        "version": ListedCommand("about", "Print the versions of what matters."),
    },
}
"""What there is, by section. A new command gets a line here, and its place in a file."""

COMMANDS = {name: one for section in SECTIONS.values() for name, one in section.items()}


class ListedGroup(click.Group):
    """A group that knows its commands by name, and loads one when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return their names, in the order of the sections."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None if there is none of that name."""
        listed = COMMANDS.get(cmd_name)
        if listed is None:
            self._refuse_misspelt(ctx, cmd_name)
            return None
        found: Any = getattr(import_module(f"{PACKAGE}.{listed.file}"), f"{cmd_name}_command")
        assert isinstance(found, click.Command)
        return found

    def _refuse_misspelt(self, ctx: click.Context, name: str) -> None:
        from difflib import get_close_matches  # late: for mistakes only

        close = get_close_matches(name, COMMANDS, n=1)
        if close and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}. Did you mean {close[0]}?")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, without loading any of them."""
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, one.help) for name, one in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete the name of a command, without loading any of them."""
        from click.shell_completion import CompletionItem  # late: for completion only

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        if incomplete.startswith("-"):
            return list(super().shell_complete(ctx, incomplete))
        return [CompletionItem(name, help=COMMANDS[name].help) for name in names]


EPILOG = (
    "Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 not found, 4 still running, 5 "
    "cancelled or terminated, 6 code does not fit the history, 7 no store, 130 interrupted."
)


@click.group(cls=ListedGroup, epilog=EPILOG, context_settings={"max_content_width": 100})
@click.version_option(package_name="perdure", message="perdure %(version)s")
def cli() -> None:
    """Durable execution for Python."""


if __name__ == "__main__":
    cli()
