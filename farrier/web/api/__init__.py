"""The HTTP API: a table of operations with types goes in; routes, checks and the OpenAPI document come out."""
