-- The database's time, which all ages are counted to.
SELECT farrier.now()
