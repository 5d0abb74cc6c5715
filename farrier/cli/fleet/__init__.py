"""Commands about the whole fleet: take its figures, limits and tasks, and print lists, rules and dashboards."""
