-- Returns the database's time, from which all ages are computed.
SELECT farrier.now()
