"""Vault: paths go in; secrets or a classified failure come out."""
