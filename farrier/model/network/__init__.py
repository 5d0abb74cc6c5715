"""Network segments in the model: segments and the needs of a node go in; states, actions and uses come out."""
