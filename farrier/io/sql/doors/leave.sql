-- Deletes the row of the door $1.
SELECT farrier.leave_door($1)
