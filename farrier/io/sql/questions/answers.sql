-- Returns the answers to the questions of the call $1.
SELECT place, verdict, reason FROM farrier.foreseen($1)
