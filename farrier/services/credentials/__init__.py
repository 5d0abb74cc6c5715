"""Credentials: references go in; secrets for one host, or the reason of a refusal, come out."""
