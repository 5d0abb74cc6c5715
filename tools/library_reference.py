"""Generates the references of the Python libraries from docstrings: the names of `farrier.library`, and the methods and
errors of `farrier.client`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from farrier import client, library
from farrier.errors import FarrierError

_ALIASES = {
    "Decided": "The decision that a `Handler` returns.",
    "Decision": "The decision that a `StateHandler` returns: an outcome or a step.",
    "Outcome": "The result of a run or of its step: `Transition`, `Update`, `Wait`, `DoNothing` or `Deleted`.",
}
"""Aliases of types, which cannot have docstrings."""
_WITH_METHODS = ("CredentialStore", "Enqueuer", "Resource", "StateHandler")
"""Classes whose methods a kind calls or defines."""
_NOT_FOR_USERS = ("call",)
"""Methods whose arguments are not names of the library."""


def names() -> Iterator[tuple[str, str]]:
    """Yield each name of `farrier.library`, and the methods of some classes, with what they are for."""
    for name in library.__all__:
        documented = getattr(library, name)
        yield f"`{name}`", _ALIASES.get(name) or _text(documented)
        if name in _WITH_METHODS:
            yield from _methods(documented, f"{name}.")


def client_methods() -> Iterator[tuple[str, str]]:
    """Yield each method of the client with what it does."""
    yield from _methods(client.Farrier, "")


def client_errors() -> Iterator[tuple[str, str]]:
    """Yield each error of the client with its meaning."""
    for name in client.__all__:
        exported = getattr(client, name)
        if issubclass(exported, FarrierError):
            yield f"`{name}`", _text(exported)


def _methods(of: type, prefix: str) -> Iterator[tuple[str, str]]:
    for name, method in vars(of).items():
        if inspect.isfunction(method) and not name.startswith("_") and name not in _NOT_FOR_USERS:
            _, *parameters = inspect.signature(method).parameters.values()
            yield f"`{prefix}{name}({', '.join(map(_parameter, parameters))})`", _text(method)


def _parameter(of: inspect.Parameter) -> str:
    match of.kind:
        case inspect.Parameter.VAR_POSITIONAL:
            return f"*{of.name}"
        case inspect.Parameter.VAR_KEYWORD:
            return f"**{of.name}"
        case inspect.Parameter.KEYWORD_ONLY:
            return f"{of.name}="
        case _:
            return of.name


def _text(documented: object) -> str:
    """Return a docstring on one line."""
    return " ".join((inspect.getdoc(documented) or "").split())
