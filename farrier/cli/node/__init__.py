"""Commands of `node`: take names and selections of nodes, and print nodes or submit intents for them."""
