"""Onboarding: one module for each stage, modules with shared code, and the end of the workflow."""
