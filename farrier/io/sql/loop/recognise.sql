-- If this database was restored from a backup, holds every resource. Returns the number of resources that this call held; null if
-- the database was not restored.
SELECT farrier.recognise()
