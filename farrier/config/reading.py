"""Reads the configuration from defaults, the file, the environment and flags; a later source overrides an earlier
source.

`cli` calls `load` once, and again on SIGHUP. Every refusal is a ConfigError, which names the source, the section and
the key, states what was expected, and shows the nearest valid name. A ConfigError never contains a value, because
values may be secrets.
"""

from __future__ import annotations

import difflib
import enum
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from farrier import errors
from farrier.config import kinds
from farrier.config.credentials import CredentialsConfig
from farrier.config.groups import Config
from farrier.model import duration
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.kinds.spec import KindSpec
from farrier.model.node import limits
from farrier.model.node.limits import Limits

ENV_PREFIX = "FARRIER_"

_ENVIRONMENT = "the environment"
# Variables that are no settings: of the command line, of the hooks, of development, and those with which Kubernetes
# describes a service named farrier to every container of its namespace.
_NO_SETTINGS = re.compile(r"FARRIER_(CONFIG|CONTEXT|TOKEN|PORT|(PORT|SERVICE|TEST|MUTANTS)_.*)")
_DIGITS = re.compile(r"\d+(\.\d+)?")
# Some editors write this byte order mark at the beginning of a file. It has no meaning.
_BYTE_ORDER_MARK = "\ufeff"
# The deepest setting needs less than half of this depth.
_DEEPEST = 20
_TOO_DEEP = f"it is nested too deeply; at most {_DEEPEST} levels of tables and arrays are allowed"

# Errors of msgspec about a text in the environment, and what an operator can write.
_MEANT = {
    "Expected `bool`, got `str`": "expected true or false",
    "Expected `int`, got `str`": "expected a whole number",
}

SECTIONS: Mapping[str, type[Any]] = get_type_hints(Config)
_SLA = "sla"  # this section is no struct: the model defines its keys, and operators name some of its tables

# If a source sets one of these keys, the value of the other key from sources of lower precedence is ignored. For
# example, --embedded overrides a DSN in the file.
_ALTERNATIVES = {("database", "dsn"): "embedded", ("database", "embedded"): "dsn"}


def load(
    path: Path | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """Read the effective settings. The keys of `flags` are like `database.dsn`; the value None means that the flag was
    not given.

    Raises ConfigError with all mistakes.
    """
    mistakes = _Mistakes()
    merged: dict[str, dict[str, _Given]] = {section: {} for section in SECTIONS}
    sources = (
        (str(path), _from_file(path)),
        (_ENVIRONMENT, _from_environment(environment)),
        ("the command line", _from_flags(flags or {})),
    )
    for source, given in sources:
        known = list(_settings(source, given, mistakes))
        for section, key, _ in known:
            merged[section].pop(_ALTERNATIVES.get((section, key), ""), None)
        for section, key, value in known:
            merged[section][key] = _Given(value, source)
    _refuse_unknown(environment, merged["credentials"].get("env_prefix"), mistakes)
    built: dict[str, Any] = {}
    for section, pairs in merged.items():
        if pairs and section != _SLA:
            built[section] = _build(section, pairs, mistakes)
    if merged[_SLA] and not mistakes.has("controller"):
        with mistakes.collected(_SLA):
            named_kinds = built["controller"].kinds if built.get("controller") else ()
            built[_SLA] = _limits(merged[_SLA], named_kinds, mistakes)
    mistakes.refuse()
    return Config(**built)


class _Mistakes:
    """Collects mistakes in the settings, so that one error reports all mistakes that are independent of each other."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._sections: set[str] = set()

    @contextmanager
    def collected(self, section: str = "") -> Iterator[None]:
        """Collect the mistake that the block raises. `section` is the section of the mistake."""
        try:
            yield
        except errors.ConfigError as mistake:
            self._texts.append(str(mistake))
            self._sections.add(section)

    def has(self, section: str) -> bool:
        """Return whether the section has a mistake, so that relations between its settings cannot be checked."""
        return section in self._sections

    def refuse(self) -> None:
        """Raise ConfigError if there is a mistake."""
        if len(self._texts) == 1:
            raise errors.ConfigError(self._texts[0])
        if self._texts:
            raise errors.ConfigError(f"{len(self._texts)} mistakes:" + "".join(f"\n- {text}" for text in self._texts))


class _Given(NamedTuple):
    value: object
    source: str


def fields(section: str) -> Mapping[str, msgspec.structs.FieldInfo]:
    """Return the fields of a section, by their names in the file."""
    return {field.encode_name: field for field in msgspec.structs.fields(SECTIONS[section])}


def _from_file(path: Path | None) -> dict[str, dict[str, object]]:
    if path is None:
        return {}
    try:
        content = toml(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise errors.ConfigError(f"cannot read {path}: {failure.strerror}") from failure
    except ValueError as failure:
        raise errors.ConfigError(f"{path} is not valid TOML: {failure}") from failure
    for section, pairs in content.items():
        if not isinstance(pairs, dict):
            raise errors.ConfigError(
                f"{path}: {section!r} is outside of any section; expected one of [{'], ['.join(SECTIONS)}]"
            )
    return content


def toml(text: str) -> dict[str, Any]:
    """Parse a TOML file. Raises ValueError for invalid TOML and for tables that are nested too deeply."""
    try:
        content = tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK))
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # a limit of Python; its error text is meant for programmers
        raise ValueError("it contains a number with thousands of digits") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level: list[Any] = [content]
    for _ in range(_DEEPEST):
        within = (inner for held in level for inner in (held.values() if isinstance(held, dict) else held))
        level = [inner for inner in within if isinstance(inner, dict | list)]
        if not level:
            return content
    raise ValueError(_TOO_DEEP)


def _flat(table: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Join nested tables into dotted keys: TOML parses `status.offline = "1h"` as a table in a table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield above + key, value


def _from_environment(environment: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Read the variables FARRIER_<SECTION>_<KEY>."""
    found: dict[str, dict[str, object]] = {}
    for name, value in environment.items():
        section, _, key = name.removeprefix(ENV_PREFIX).lower().partition("_")
        if name.startswith(ENV_PREFIX) and section in SECTIONS and section != _SLA:
            found.setdefault(section, {})[key] = value
    return found


def _refuse_unknown(environment: Mapping[str, str], prefix: _Given | None, mistakes: _Mistakes) -> None:
    """Refuse variables FARRIER_* that belong to no section. `prefix` is the setting credentials.env_prefix."""
    secrets = str(CredentialsConfig().env_prefix if prefix is None else prefix.value)
    settings = [
        f"{ENV_PREFIX}{section}_{key}".upper() for section in SECTIONS if section != _SLA for key in fields(section)
    ]
    for name in environment:
        section = name.removeprefix(ENV_PREFIX).lower().partition("_")[0]
        if not name.startswith(ENV_PREFIX) or name.startswith(secrets) or _NO_SETTINGS.fullmatch(name):
            continue
        with mistakes.collected():
            if section == _SLA:
                raise errors.ConfigError(f"{name}: the environment cannot set limits; write them to [sla] of a file")
            if section not in SECTIONS:
                raise errors.ConfigError(f"unknown variable {name!r} in {_ENVIRONMENT}; {_variable(name, settings)}")


def _variable(name: str, known: Sequence[str]) -> str:
    """Return a suggestion for an unknown variable. The common prefix is not compared, because it makes all names
    similar. If the name is a key without its section, such as FARRIER_DSN, and only one section has this key, return
    the variable of this key."""
    key = name.removeprefix(ENV_PREFIX)
    names = [each.removeprefix(ENV_PREFIX) for each in known]
    same = [each for each in names if each.partition("_")[2] == key]
    near = same if len(same) == 1 else _near(key, names)
    if near:
        return f"did you mean {ENV_PREFIX + near[0]!r}?"
    return f"expected {ENV_PREFIX}SECTION_KEY with a section and a key that farrier config prints"


def _from_flags(flags: Mapping[str, object]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for name, value in flags.items():
        if value is not None:
            section, _, key = name.partition(".")
            found.setdefault(section, {})[key] = value
    return found


def _settings(
    source: str, given: Mapping[str, Mapping[str, object]], mistakes: _Mistakes
) -> Iterator[tuple[str, str, object]]:
    """Yield the settings with known names: section, key and value."""
    for section, pairs in given.items():
        with mistakes.collected():
            check_name(section, SECTIONS, what="section", where=source)
            for key, value in pairs.items():
                with mistakes.collected(section):
                    if section != _SLA:
                        check_name(key, fields(section), what="key", where=f"[{section}] of {source}")
                    yield section, key, value


def check_name(name: str, known: Iterable[str], *, what: str, where: str) -> None:
    """Raise ConfigError if a name is not in `known`, and suggest the nearest known name."""
    names = tuple(known)
    if name in names:
        return
    raise errors.ConfigError(f"unknown {what} {name!r} in {where}; {nearest(name, names)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for an unknown name."""
    names = tuple(map(str, known))
    near = _near(name, names)
    return f"did you mean {near[0]!r}?" if near else f"expected one of: {', '.join(names)}"


def _near(name: str, known: Sequence[str]) -> list[str]:
    # With a lower limit, difflib returns unrelated short names, such as `gone` for `nope`.
    return difflib.get_close_matches(name, known, n=1, cutoff=0.6)


def _build(section: str, pairs: Mapping[str, _Given], mistakes: _Mistakes) -> Any:
    hints = get_type_hints(SECTIONS[section], include_extras=True)
    ready: dict[str, object] = {}
    for key, given in pairs.items():
        with mistakes.collected(section):
            ready[key] = _value(section, key, given, hints[key])
    if mistakes.has(section):
        return None
    with mistakes.collected(section):
        try:
            return SECTIONS[section](**ready)
        except ValueError as failure:
            sources = " and ".join(sorted({given.source for given in pairs.values()}))
            raise errors.ConfigError(f"[{section}] of {sources}: {failure}") from failure
    return None


def _limits(pairs: Mapping[str, _Given], named_kinds: Iterable[str], mistakes: _Mistakes) -> Limits:
    """Read section [sla], with its tables for individual sites and models."""
    source = next(given.source for given in pairs.values())
    table = {key: given.value for key, given in pairs.items()}
    sites, models = (_tables(scope, table.pop(scope, {}), source) for scope in ("site", "model"))
    everywhere = dict(_flat(table))
    specs = _specs((key for given in (everywhere, *sites.values(), *models.values()) for key in given), named_kinds)
    known = limits.KEYS | limits.keys_of(specs)
    by_model = limits.KEYS | limits.keys_of(spec for spec in specs if spec.by_model)

    def overrides(given: Mapping[str, object], section: str, known: Iterable[str]) -> dict[str, timedelta]:
        return dict(_overrides(given, f"[{section}] of {source}", known, mistakes))

    return Limits(
        everywhere=overrides(everywhere, _SLA, known),
        models={name: overrides(given, f"{_SLA}.model.{name}", by_model) for name, given in models.items()},
        sites={name: overrides(given, f"{_SLA}.site.{name}", known) for name, given in sites.items()},
    )


def _specs(given: Iterable[str], named_kinds: Iterable[str]) -> tuple[KindSpec, ...]:
    """Return the kinds besides nodes that may have limits. Kinds of other packages are imported only if a key may
    belong to one of them."""
    if _first_words(given) <= _first_words(limits.KEYS | limits.keys_of(BUILT_IN)):
        return BUILT_IN
    return (*BUILT_IN, *kinds.specs(named_kinds))


def _first_words(keys: Iterable[str]) -> frozenset[str]:
    """Return the first words of these keys, each of which is the name of a layer or a kind."""
    return frozenset(key.partition(".")[0] for key in keys)


def _tables(scope: str, given: object, source: str) -> Mapping[str, Mapping[str, object]]:
    if isinstance(given, dict) and all(isinstance(table, dict) for table in given.values()):
        return {name: dict(_flat(table)) for name, table in given.items()}
    raise errors.ConfigError(
        f"{scope!r} in [{_SLA}] of {source}: limits of one {scope} belong in a table of their own, "
        f"[{_SLA}.{scope}.NAME]"
    )


def _overrides(
    given: Mapping[str, object], where: str, known: Iterable[str], mistakes: _Mistakes
) -> Iterator[tuple[str, timedelta]]:
    """Yield the valid limits of a table."""
    for key, value in given.items():
        with mistakes.collected(_SLA):
            _check_limit(key, where, known)
            try:
                yield key, read_duration(value)
            except ValueError as failure:
                raise errors.ConfigError(f"{key!r} in {where}: {failure}") from failure


def _check_limit(key: str, where: str, known: Iterable[str]) -> None:
    word, dot, _ = key.partition(".")
    words = _first_words(known)
    if dot and word not in words:
        raise errors.ConfigError(
            f"unknown limit {key!r} in {where}: {word!r} is neither a layer nor a kind; expected one of: "
            f"{', '.join(sorted(words))}. List a kind of another package in controller.kinds"
        )
    check_name(key, sorted(known), what="limit", where=where)


def _value(section: str, key: str, given: _Given, wanted: Any) -> object:
    try:
        if timedelta in (wanted, *get_args(wanted)):
            return read_duration(given.value)
        if isinstance(given.value, str) and given.source == _ENVIRONMENT:
            return _from_text(given.value, wanted)
        return msgspec.convert(given.value, wanted)
    except ValueError as failure:
        text = one_of(get_args(wanted)[0]) or _MEANT.get(str(failure)) or failure
        variable = f" ({ENV_PREFIX}{section}_{key})".upper() if given.source == _ENVIRONMENT else ""
        raise errors.ConfigError(f"{key!r} in [{section}] of {given.source}{variable}: {text}") from failure


def one_of(type_: Any) -> str:
    """Return a text with the accepted values of an enumeration; empty for any other type."""
    if not (isinstance(type_, type) and issubclass(type_, enum.Enum)):
        return ""
    return f"expected one of {', '.join(repr(each.value) for each in type_)}"


def _from_text(value: str, wanted: Any) -> object:
    """Parse the text of an environment variable. A list of tables is JSON; the items of any other list are separated by
    commas. Any other value is converted to its type."""
    type_ = get_args(wanted)[0]
    if get_origin(type_) is tuple:
        inner = get_args(type_)[0]
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            return msgspec.json.decode(value or "[]", type=wanted)
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return msgspec.convert(value, wanted, strict=False)


def read_duration(value: object) -> timedelta:
    """Parse a duration from a file: a number of seconds, or a text with units. Raises ValueError."""
    match value:
        case timedelta():
            found = value
        case int() | float() if not isinstance(value, bool):
            found = _seconds(value)
        case str() if _DIGITS.fullmatch(value):
            found = _seconds(float(value))
        case str():
            found = duration.parse(value)
        case _:
            raise ValueError("expected a duration such as 30s, 5m or 1h 30m, or a number of seconds")
    if not timedelta(0) < found <= duration.LONGEST:
        raise ValueError(f"expected a duration longer than 0 and of at most {duration.human(duration.LONGEST)}")
    return found


def _seconds(number: float) -> timedelta:
    try:
        return timedelta(seconds=number)
    except (ValueError, OverflowError):  # nan, infinity and too great numbers
        most = timedelta.max // timedelta(seconds=1)
        raise ValueError(f"expected a finite number of seconds, at most {most}") from None
