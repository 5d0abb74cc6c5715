"""The API of the agents, under /agent/v1: reports and claims of agents go in; verdicts and tasks come out."""
