"""Compiles the templates of user data, and checks them, with the names that they may use, before the first use.

`site_files` calls `faults` when it reads a site. `handlers.node.cloud_init` renders the result of `compiled`. A
template can use only the given values. It cannot include files or reach attributes that begin with an underscore. An
unknown name is an error, never an empty text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import jinja2
from jinja2 import meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from farrier.config.reading import nearest

NODE: Mapping[str, str] = {
    "id": "id of the node",
    "name": "name of the node",
    "site": "name of the node's site",
    "model": "hardware model of the node, or none",
    "labels": "labels of the node, as in `node.labels.rack`",
    "macs": "list of the MAC addresses of the registration",
    "maas_id": "ID of the node's machine in MAAS",
    "agentless": "whether the node has no agent",
    "bmc": "data about the node's BMC",
}
"""The fields of `node` that a template may use."""

BMC: Mapping[str, str] = {
    "address": "address of the BMC",
    "serial": "serial number of the machine",
    "uuid": "UUID of the machine",
    "manufacturer": "manufacturer of the machine",
    "product": "product name of the machine",
}
"""The fields of `node.bmc` that a template may use. An unknown value is None."""

GIVEN: Mapping[str, str] = {
    "node": "the node, with the fields below",
    "bootstrap_token": "bootstrap token for the agent's enrolment, valid once; empty for an agentless node",
    "distro_series": "image to install: `deploy.distro_series`",
    "segments": "the node's addresses, by segment, as in `segments['tenant-a'].address`",
    "agents": "the server for agents, with the fields below",
    "cleaning_by": "who erases the node's data in its own system, by `cleaning.by`: agent, worker or empty",
}
"""The names that every template can use, in addition to the variables of its site."""

SEGMENT: Mapping[str, str] = {
    "address": "address of the node",
    "prefix_length": "length of the prefix in bits, such as 24",
    "gateway": "gateway of the prefix, or none",
    "mtu": "MTU of the segment",
    "vlan": "VLAN of the segment, or none",
}
"""The fields of each element of `segments` that a template may use."""

AGENTS: Mapping[str, str] = {
    "url": "URL of the server that agents call: `agents.url` in farrier's settings",
    "ca": "certificates of the authorities of this server, as PEM; empty if the system's authorities are used",
    "sha256": "SHA-256 of the agent that this server offers as /farrier-agent.pyz",
}
"""The fields of `agents` that a template may use."""

TOKEN = "bootstrap_token"

# The methods of Python's mappings that a template may call.
_OF_MAPPINGS = frozenset({"items", "keys", "values", "get"})
# The number of templates that are cached, which is greater than the number of sites of any installation. A template
# takes some kilobytes.
_KEPT = 256
# The file name in tracebacks of a template that was not read from a file.
_NAMELESS = "<template>"

_NOT_PLAIN = re.compile(r"[^\x20-\x7e]")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def _yaml(value: object) -> str:
    """Return the value as YAML on one line, from which a parser gets exactly this value. The result is also JSON,
    except for characters beyond the basic plane, which YAML escapes differently."""
    return _NOT_PLAIN.sub(_escaped, json.dumps(value, ensure_ascii=False, default=_plain))


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _plain(value: object) -> object:
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises an error that names the missing value
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} cannot be written as YAML")


def _given(value: object) -> object:
    """Return the value of an expression, or raise an error if it has no value."""
    if value is None:
        raise jinja2.UndefinedError("an expression has no value; add a default: {{ … or 'text' }}")
    return value


_environment = ImmutableSandboxedEnvironment(
    undefined=jinja2.StrictUndefined,
    autoescape=False,  # the output is not HTML
    keep_trailing_newline=True,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_given,
)
_environment.filters["yaml"] = _yaml


@lru_cache(maxsize=_KEPT)
def compiled(text: str) -> jinja2.Template:
    """Compile the template. Raises jinja2.TemplateSyntaxError."""
    return _environment.from_string(text)


@lru_cache(maxsize=_KEPT)
def names_token(text: str) -> bool:
    """Return whether the template uses the bootstrap token. Raises the same errors as `compiled`."""
    return TOKEN in meta.find_undeclared_variables(_environment.parse(text))


@lru_cache(maxsize=_KEPT)
def names_agents(text: str) -> bool:
    """Return whether the template uses data of the server for agents. Raises the same errors as `compiled`."""
    return "agents" in meta.find_undeclared_variables(_environment.parse(text))


def faults(text: str, variables: Iterable[str], *, segments: Collection[str] = ()) -> Iterator[str]:
    """Return the faults of the template that can be found without a node, for a site with these variables and
    segments."""
    names = tuple(variables)
    for name in names:
        if name in GIVEN:
            yield f"variable {name!r} is reserved: every template has it; choose another name"
        elif not _IDENTIFIER.fullmatch(name):
            yield f"variable {name!r} has an invalid name; use a letter, then letters, digits and _"
    try:
        yield from _faults_of(text, (*GIVEN, *names), segments)
    except jinja2.TemplateSyntaxError as error:
        yield f"line {error.lineno}: {error.message}"
    except (RecursionError, MemoryError, SyntaxError):  # limits of Python for the compiled template
        yield "it is nested too deeply"


def _faults_of(text: str, names: tuple[str, ...], segments: Collection[str]) -> Iterator[str]:
    tree = _environment.parse(text)
    compiled(text)
    if any(True for _ in meta.find_referenced_templates(tree)):
        yield "it includes, imports or extends another template; use one file"
    for name in sorted(meta.find_undeclared_variables(tree) - set(names)):
        line = next(found.lineno for found in tree.find_all(nodes.Name) if found.name == name)
        yield f"line {line}: unknown name {name!r}; {nearest(name, names)}"
    own = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    for found in (*tree.find_all(nodes.Getattr), *tree.find_all(nodes.Getitem)):
        path = _path(found)
        fault = _fault(path, segments, dotted=isinstance(found, nodes.Getattr)) if path[0] not in own else None
        if fault is not None:
            yield f"line {found.lineno}: {fault}"


def _fault(path: Sequence[str], segments: Collection[str], *, dotted: bool) -> str | None:
    """Return what is wrong with a path such as `node.bmc.serial`; None if the path is valid. With `dotted`, the last
    part may be a method."""
    match path:
        case ["node", name] if name not in NODE:
            return f"node has no {name!r}; {nearest(name, NODE)}"
        case ["node", "bmc", name] if name not in BMC:
            return f"node has no {name!r}; {nearest(name, BMC)}"
        case ["agents", name] if name not in AGENTS:
            return f"agents has no {name!r}; {nearest(name, AGENTS)}"
        case ["segments", name] if name not in segments and not (dotted and name in _OF_MAPPINGS):
            meant = nearest(name, segments) if segments else "[network] segments is empty"
            return f"the nodes of this site have no segment {name!r}; {meant}"
        case ["segments", held, name] if held in segments and name not in SEGMENT:
            return f"a segment has no {name!r}; {nearest(name, SEGMENT)}"
    return None


def _path(found: nodes.Node) -> tuple[str, ...]:
    """Return the name and the attributes of an expression such as `node.bmc['serial']`. If the template computes a part
    during rendering, one empty text stands for this part and the parts before it."""
    if isinstance(found, nodes.Name):
        return (found.name,)
    if isinstance(found, nodes.Getattr):
        return (*_path(found.node), found.attr)
    if isinstance(found, nodes.Getitem) and isinstance(found.arg, nodes.Const) and isinstance(found.arg.value, str):
        return (*_path(found.node), found.arg.value)
    return ("",)


def line_of(error: BaseException) -> int | None:
    """Return the line of the template that raised `error` while it was rendered."""
    at = error.__traceback__
    line = None
    while at is not None:
        if at.tb_frame.f_code.co_filename == _NAMELESS:
            line = at.tb_lineno
        at = at.tb_next
    return line
