"""The generic loop: claim, load, handle, commit, lease, drain. Knows protocols and model, and no kind of
resource."""
