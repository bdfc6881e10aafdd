"""What the two databases share: a batch is decided in memory, statements are run by name.

store             the contract's methods
admin             those that people use
deciders          those that deciders use
feed_store        those that readers of the feed use
stream_store      those that streams use
access            what these four parts ask of their store
commits/          batches: load rows, decide, write what was accepted
questions/        what is only read
claims            leases on turns and jobs
claimed_messages  what a claim brings along of an instance
claimed_jobs      what it brings along of a job
job_leases        jobs that run: renewed, lost, what they say
sessions          which worker has which session
worker_rows       what is stored of workers
definitions       numbers for definitions
repair            what a person does to jobs and messages
removal           what is not needed any more
event_removal     events that a decider does not keep
stranded          what a wrong clock has left behind
twice             the answer to what was run a second time
locking           locks outside a commit
connection        what is asked of a database
packing           many rows in one statement
statement_files   where a statement is found
projection_sql    a projection's own statements
"""
