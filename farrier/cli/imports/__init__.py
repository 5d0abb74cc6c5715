"""`farrier import`: takes a file or a region's machines, and registers or changes nodes after a preview."""
