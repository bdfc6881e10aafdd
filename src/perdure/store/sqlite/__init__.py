"""The store in one SQLite file. What it shares with PostgreSQL is in `perdure.store.sql`.

store       opens, and hands operations on  writer      one transaction for a batch
connection  the driver, and its errors      readers     the threads that read
database    open, settings, migrations      lock        one writer among processes
memory      databases that are no file      files       where a database may be
within/     transactions of users           upkeep      what `perdure doctor` looks at
sql/        the statements, by subject
one_statement       a transaction as one statement
allowed_statements  what projections may run
"""
