"""Finds the kinds of other packages that settings name as `package.module:NAME`, and returns their `KindSpec`."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator

from farrier.errors import ConfigError
from farrier.model.kinds.spec import KindSpec

_WANTED = "expected the name of a kind as package.module:NAME"


def specs(names: Iterable[str]) -> Iterator[KindSpec]:
    """Return the specs of these kinds. Raises ConfigError."""
    for name in names:
        found = named(name)
        spec = getattr(found, "spec", found)
        if not isinstance(spec, KindSpec):
            raise ConfigError(f"controller.kinds: {name} is not a kind: it has no `spec`; {_WANTED}")
        yield spec


def named(name: str) -> object:
    """Import the module of `name` and return the object. Raises ConfigError."""
    module, _, attribute = name.partition(":")
    if not attribute or not all(part.isidentifier() for part in module.split(".")):
        raise ConfigError(f"controller.kinds: {_WANTED}, not {name!r}")
    try:
        imported = importlib.import_module(module)
    except (ImportError, SyntaxError) as failure:
        raise ConfigError(
            f"controller.kinds: {name} cannot be imported: {failure}; install it, or add its directory to PYTHONPATH"
        ) from failure
    if not hasattr(imported, attribute):
        raise ConfigError(f"controller.kinds: {module} has no {attribute}; {_WANTED}")
    return getattr(imported, attribute)
