"""What tests share: a PostgreSQL server, databases whose clock can be moved, verified doubles."""
