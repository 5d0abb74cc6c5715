-- Lets any number of nodes of a site leave service, for a while.
SELECT farrier.lift_brake($1, $2, $3, $4)
