-- Mends a batch of the times that were stored before the database's clock was set back.
SELECT more, done FROM farrier.mend($1)
