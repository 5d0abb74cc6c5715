-- Forgets a kind of which nothing is left that has not ended.
SELECT farrier.forget_kind($1)
