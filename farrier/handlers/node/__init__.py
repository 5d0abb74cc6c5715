"""Nodes: takes the snapshot of all layers, and returns one decision.

`handler.NodeHandler` lists the rules in the order in which they are called, and the response to each action. Rules and
responses do not import each other; both import the modules with their shared code.
"""
