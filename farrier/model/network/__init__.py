"""Network segments: their states and actions, and how a node uses them."""
