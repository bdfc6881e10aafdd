"""The store in PostgreSQL. What it shares with SQLite is in `perdure.store.sql`.

store       opens, and hands operations on  lane        one transaction for a batch
connection  one connection, on its thread   readers     the threads that read
address     what a URL says                 faults      what the server's errors mean
database    connect, migrations             clock       the database's time
sql/        the statements, by subject      roles.sql   who may do what
statements  run by name, on any connection  within/     transactions of users
notifications       who tells other processes of a commit
lost_answers        commits whose answer was lost with the connection
allowed_statements  what projections may run
"""
