-- Lets nodes of a site leave service whatever their number, for a while.
SELECT farrier.lift_brake($1, $2, $3, $4)
