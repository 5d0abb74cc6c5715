"""A node in the model: its layers and facts go in; edges, stages, limits and conditions come out."""
