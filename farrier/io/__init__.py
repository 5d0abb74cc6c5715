"""PostgreSQL: takes what protocols ask for, and returns rows as structs of the model.

No module outside this package imports asyncpg. Other packages use the database through `farrier.protocols`.
"""
