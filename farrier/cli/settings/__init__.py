"""Commands about settings: take files, flags and contexts, and print or check settings, or open a connection."""
