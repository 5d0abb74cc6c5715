"""The composition root: takes the settings, and returns running parts that are connected through protocols.

Only this package, `daemon`, `server`, `children` and `cli` import several packages of the same level. `daemon`,
`server` and some commands call this package, and run the objects that it returns. This package opens everything as a
context, so everything is closed in reverse order, even if a later step fails.
"""
