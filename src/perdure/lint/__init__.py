"""Reading source text for what cannot be replayed: behind `perdure check`. Nothing of it is run.

It is a look, not a proof: it follows calls by name inside the project, and what comes in as an
argument, or by a name that is made while the program runs, is not seen. The guard sees that, at
the call.
"""
