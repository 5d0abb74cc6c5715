-- Removes a kind without resources that have not ended.
SELECT farrier.forget_kind($1)
