-- Records that this database is the one in service, in a new place. Returns the number of holds that this lifted.
SELECT farrier.move_here()
