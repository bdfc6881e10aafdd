"""The store in one SQLite file. What it shares with PostgreSQL is in `perdure.store.sql`.

store               opens, and hands operations on
writer              one transaction for a batch
one_statement       a transaction as one statement
readers             the threads that read
connection          the driver, and its errors
database            opening: file, settings, migrations
files               where a database may be
memory              databases that are no file
file_lock           one writer among processes
file_watch          hints of other processes, by the kernel
short_calls         system calls that keep the interpreter lock
allowed_statements  what projections may run
read_only_query     a person's own SQL
upkeep              what `perdure doctor` looks at
backup              a copy while others work
within/             transactions of users
sql/                the statements, by subject
shared/             what statements share
migrations/         the way to `schema.sql`
"""
