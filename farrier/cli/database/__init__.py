"""`farrier db`: takes options, and returns what a migration did, would do, or what a restore holds."""
