"""The generic loop: takes shards, loads, runs, commits and drains. It imports only protocols and model, and no kind of
resource."""
