"""`farrier intent`: takes actions with parameters, and prints intents and their answers."""
