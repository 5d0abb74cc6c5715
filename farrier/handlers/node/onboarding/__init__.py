"""Onboarding: one module for each stage, their shared code, and the end of the workflow (model §4, 000 §4)."""
