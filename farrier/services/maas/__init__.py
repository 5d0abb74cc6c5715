"""MAAS regions: changes and readings to request go in; structs of the model or a failure come out."""
