"""`farrier history`: takes filters, and prints changes, or follows them."""
