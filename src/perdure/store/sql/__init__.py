"""What the two databases share: a batch is decided in memory, statements are run by name.

store       the contract's methods          batch       one transaction for a batch
rows        load what a batch touches       commit      decide, in memory
flush       write what was decided          claims      leases
reading     read-only questions             packing     many rows in one statement
connection  what is asked of a database     row_types   what the values of rows are called
statement_files  where a statement is found
projection_sql   a projection's own statements
remembered_rows  what a writer need not load
"""
