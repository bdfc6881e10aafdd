"""`python -m perdure`: the command, where its script is not on the path."""

from perdure.cli.main import cli

if __name__ == "__main__":
    cli(prog_name="python -m perdure")
