"""Kinds of resources as data: layers, edges, actions and metrics go in; guards and tables come out."""
