"""The store in one SQLite file.

store       the contract's methods          writer      one transaction for a batch
rows        load what a batch touches       commit      decide, in memory
flush       write what was decided          claims      leases
reading     read-only questions             readers     the threads that ask them
connection  the two drivers, and errors     packing     many rows in one statement
database    open, settings, migrations      lock        one writer among processes
"""
