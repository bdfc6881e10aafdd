"""The store in PostgreSQL. What it shares with SQLite is in `perdure.store.sql`.

store               opens, and hands operations on
lane                one transaction for a batch
operations          what a lane asks of what it is given
functions           the database's own, which run a whole commit or claim
lost_answers        commits whose answer was lost with the connection
readers             the threads that read
connection          one connection, on its thread
statements          run by name, on any connection
placeholders        signs for values, `?` and `:name`
pieces              a statement's text, piece by piece
address             what a URL says
database            opening: server, migrations
faults              what the server's errors mean
clock               the database's time
notifications       who tells other processes of a commit
presence            the lock of a worker that is connected
allowed_statements  what projections may run
read_only_query     a person's own SQL
roles               who may do what: the text of `roles.sql`
upkeep              what `perdure doctor` asks
examining           what it makes of the answers
examination/        its statements
within/             transactions of users
sql/                the statements, by subject
shared/             what statements share
migrations/         tables and functions, step by step
"""
