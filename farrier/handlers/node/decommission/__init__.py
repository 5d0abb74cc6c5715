"""Decommission: one module for each stage, what they share, and how it ends (model §4, 000 §5).

`disable_node` takes the node to `draining`, `drain_node` to `retired`; all later stages run there, until
`remove_gpuaas_node_record` takes it to `removing`. The agent's tasks are issued in the commit that enters a state which
needs one, so a node is never left in it alone.
"""
