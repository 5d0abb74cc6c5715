"""Queries for display: take filters, and return views."""
