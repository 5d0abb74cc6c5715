"""What simple kinds share: takes the spec of a kind and its handler, and returns a `protocols.Kind`.

The spec of a kind defines which states accept an action; `ResourceKind.guarded` rejects intents in all other states.
Pure.
"""
