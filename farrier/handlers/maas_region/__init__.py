"""MAAS regions: takes a region and its machines, and returns steps that read them in bulk, and observations.

`RegionHandler.handle` decides what to read, `observe` reads it, and `cursor` tracks which events were read. Each run
stores the observations that node handlers use.
"""
