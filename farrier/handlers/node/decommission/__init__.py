"""Decommission: takes a node and its stage, and returns the result of the stage, or the end of the workflow.

Each stage that is more than an agent task has a module of its own.

`disable_node` takes the node to `draining`, and `drain_node` takes it to `retired`. All later stages run in `retired`,
until `remove_gpuaas_node_record` takes the node to `removing`. The commit that enters a status with an agent task also
issues the task, so a node is never in such a status without its task.
"""
