"""`farrier node`: takes names and selections of nodes, and prints nodes or submits intents for them."""
