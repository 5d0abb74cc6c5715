"""Kinds of resources as data: layers, edges, actions and metrics go in; guards, tables and diagrams come out."""
