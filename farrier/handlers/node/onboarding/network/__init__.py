"""The network of a deployed machine: takes a site's rules and MAAS's interfaces, and returns a plan of links."""
