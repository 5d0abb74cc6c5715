"""Prometheus metrics: what the loop and the service clients report, and figures of the fleet.

Series names and labels are a contract with dashboards and alert rules. All series exist at zero from the start, in a
separate registry. Label values come from finite sets, never from IDs or names.
"""
