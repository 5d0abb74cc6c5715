"""Nodes: status, management, workflows and the answers to intents.

`handler.NodeHandler` looks at one snapshot and returns one decision: its tables have the rules in the order in which
they are asked, and the response to each action. Rules and responses import no other; what they share is below them.
"""
