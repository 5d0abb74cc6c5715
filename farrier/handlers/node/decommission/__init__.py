"""Decommission: one module for each stage, their shared code, and the end of the workflow (model §4, 000 §5).

`disable_node` takes the node to `draining`, `drain_node` to `retired`. All later stages run there, until
`remove_gpuaas_node_record` takes it to `removing`. The commit that enters a state with an agent task also issues the
task, so a node is never in such a state without its task.
"""
