"""What the two databases share: a batch is decided in memory, statements are run by name.

store       the contract's methods          batch       one transaction for a batch
rows        load what a batch touches       commit      decide, in memory
flush       write what was decided          claims      leases
reading     read-only questions             packing     many rows in one statement
row_types   what their values are called
connection  what is asked of a database     tables      a projection's own statements
statement_files  where a statement is found
"""
