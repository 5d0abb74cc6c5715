"""Commands for kinds other than nodes: take a kind and names, and print resources or submit intents for them."""
