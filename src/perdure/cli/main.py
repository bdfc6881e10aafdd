"""The `perdure` command."""

from __future__ import annotations

import sys

import click

from perdure.errors import PerdureError


@click.group()
@click.version_option(package_name="perdure", message="perdure %(version)s")
def cli() -> None:
    """Durable execution for Python."""


@cli.command()
@click.option("--seconds", default=1.0, show_default=True, help="How long each activity takes.")
def demo(seconds: float) -> None:
    """Run an order, kill its worker in the middle, start it again: the order goes on."""
    # Late: the demo brings the whole engine and, on a terminal, rich.
    from perdure.cli.demo import run_demo

    if seconds < 0.05:
        raise click.BadParameter(f"must be at least 0.05, got {seconds:g}", param_hint="--seconds")
    try:
        report = run_demo(seconds)
    except PerdureError as error:
        raise click.ClickException(str(error)) from error
    if report.repeated:
        sys.exit(1)
