"""The physical machine of a node: readings go in; identity, health and differences come out."""
