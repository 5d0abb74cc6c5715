"""Onboarding: one module for each stage, their shared code, and the end of the workflow."""
