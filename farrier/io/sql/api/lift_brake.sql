-- Lifts the brake of a site: any number of its nodes may leave service for a while.
SELECT farrier.lift_brake($1, $2, $3, $4)
