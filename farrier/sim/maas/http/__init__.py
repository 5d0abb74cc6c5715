"""The HTTP side of the simulated region: takes requests as MAAS parses them, and returns its responses."""
