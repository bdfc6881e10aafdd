"""The store in one SQLite file. What it shares with PostgreSQL is in `perdure.store.sql`.

store       opens, and hands operations on  writer      one transaction for a batch
connection  the driver, and its errors      readers     the threads that read
database    open, settings, migrations      lock        one writer among processes
memory      databases that are no file      tables      what projections may run
files       where a database may be         upkeep      what `perdure doctor` looks at
at_once     a transaction as one statement  within/     transactions of users
sql/        the statements, by subject
"""
