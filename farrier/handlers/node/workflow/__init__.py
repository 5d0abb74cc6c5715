"""The live workflow: takes the results of stages and tasks, and returns the workflow's next state."""
