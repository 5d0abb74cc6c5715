"""PostgreSQL: pool, migrations, named statements and one StateIO per kind.

Nothing outside this room imports asyncpg. What the other rooms need of the database they get through
`farrier.protocols`.
"""
