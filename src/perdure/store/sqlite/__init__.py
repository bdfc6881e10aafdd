"""The store in one SQLite file. What it shares with PostgreSQL is in `perdure.store.sql`.

store       opens, and hands operations on  writer      one transaction for a batch
connection  the driver, and its errors      readers     the threads that read
database    open, settings, migrations      lock        one writer among processes
tables      what projections may run        guard       a connection in other hands
transactions  of activities                 sql/        the statements
"""
