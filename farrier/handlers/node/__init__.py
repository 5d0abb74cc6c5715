"""Nodes: status, management, workflows and the answers to intents.

`handler.NodeHandler` takes one snapshot and returns one decision. Its tables list the rules in the order in which they
are called, and the response to each action. Rules and responses do not import each other; both import the modules with
their shared code.
"""
