"""Benchmarks: how fast is it, what does it cost, what would the disk allow? `make bench`."""
