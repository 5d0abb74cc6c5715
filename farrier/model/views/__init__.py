"""Views: what queries return for people and programs, and what the API responds."""
