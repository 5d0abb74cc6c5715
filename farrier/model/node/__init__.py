"""A node: its layers, edges, stages, limits and conditions as data, and its snapshot."""
