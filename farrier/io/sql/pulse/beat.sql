-- Commits a pulse; returns by how much the database's clock was set back since the last pulse.
SELECT farrier.beat()
