"""UFM: changes of partition keys go in; the keys with their ports, or a classified failure, come out."""
