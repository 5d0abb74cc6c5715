"""Prometheus metrics: the reports of the loop and of the service clients, and figures of the fleet.

Series names and labels are a contract with dashboards and alert rules. All series are in a separate registry, and exist
at zero from the start. Label values come from finite sets, never from IDs or names.
"""
