"""Prometheus metrics: takes the reports of the loop and of clients, and figures of the fleet, and returns series.

Series names and labels are a contract with dashboards and alert rules. All series are in a separate registry, and exist
at zero from the start. Label values come from finite sets, never from IDs or names.
"""
