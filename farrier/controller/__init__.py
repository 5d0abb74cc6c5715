"""The generic loop: takes shards, loads resources, runs their handlers, commits the results, and drains. The package
imports only `protocols` and `model`, and does not depend on any kind of resource."""
