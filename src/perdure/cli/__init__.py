"""The command line. Imported only by the `perdure` command."""
