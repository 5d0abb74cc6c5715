"""The schema: takes the files of this folder, and returns a database of the same shape, or a plan for it."""
