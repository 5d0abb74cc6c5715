"""Onboarding: takes a node and its stage, and returns the result of the stage, or the end of the workflow.

A stage has a module of its own; the other modules have what several stages share.
"""
