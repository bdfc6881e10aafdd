"""The commands, a file for each group. Each is imported when it is used, see `perdure.cli.main`."""
