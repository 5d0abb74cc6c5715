"""MAAS in the model: readings of machines go in, changes and the states of a region come out."""
