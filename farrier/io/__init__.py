"""PostgreSQL: the pool, migrations, named statements and one StateIO for each kind.

No module outside this package imports asyncpg. Other packages use the database through `farrier.protocols`.
"""
