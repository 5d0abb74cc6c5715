"""Nodes: status, management, workflows and the answers to intents.

`handler.NodeHandler` takes one snapshot and returns one decision. Its tables list the rules in the order of their
calls, and the response to each action. Rules and responses do not import each other; their shared code is in modules
that both import.
"""
