"""`farrier site`: takes site files, and prints faults, regions, brakes and secrets that cannot be read."""
