"""Commands of `intent`: take actions with parameters, and print intents and their answers."""
