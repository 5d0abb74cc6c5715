"""Onboarding: one module for each stage, what they share, and how it ends (model §4, 000 §4)."""
