"""Advice: takes the view of a node or resource, and returns what it waits for and what an operator can do."""
