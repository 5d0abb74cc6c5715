"""Rules: each takes a node, the time and the policy, and returns a decision or None."""
