"""Pure functions that read why a BMC refused a request: the messages of Redfish in the body of the response.

`bmc_answers` uses these functions for each refusal. The text contains IDs and texts of messages, never a web page. It
is one short line without secrets, because farrier stores and shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from farrier.services.http.quoting import quoted

EXTENDED_INFO = "@Message.ExtendedInfo"

# A BMC usually sends one message. More messages repeat the first for other properties.
MOST_MESSAGES = 3

# Messages that only refer to other messages.
_SAY_NOTHING = frozenset({"GeneralError", "Success"})
_ID = re.compile(r"[A-Za-z0-9_. -]{1,128}")


class Message(msgspec.Struct, frozen=True):
    """A message: its ID, such as `Base.1.8.InsufficientPrivilege`, and its text; either may be empty."""

    id: str
    text: str

    @property
    def name(self) -> str:
        """The last part of the ID, which is the same in all versions of the registry."""
        return self.id.rpartition(".")[2]


def messages(body: object) -> tuple[Message, ...]:
    """Return the messages in the decoded body of a refusal. Messages that only refer to others come last."""
    found = tuple(dict.fromkeys(_messages(body)))
    return tuple(sorted(found, key=lambda message: message.name in _SAY_NOTHING))


def said(found: Iterable[Message], secrets: Iterable[str]) -> str:
    """Return the messages as the end of "... returned HTTP 403"."""
    telling = [one for one in found if one.name not in _SAY_NOTHING] or list(found)
    texts = [": ".join(filter(None, (one.id, one.text))) for one in telling[:MOST_MESSAGES]]
    if not texts:
        return ", and gives no reason"
    return f": {quoted('; '.join(texts).encode(), secrets)}"


def _messages(body: object) -> Iterator[Message]:
    if not isinstance(body, Mapping):
        return
    error = body.get("error")
    for place in (error, body):
        if isinstance(place, Mapping):
            for field, value in place.items():
                # The messages about one property are beside this property.
                if isinstance(field, str) and field.endswith(EXTENDED_INFO):
                    yield from _listed(value)
    if isinstance(error, Mapping):
        yield from _read(error, id_field="code", text_field="message")
    elif isinstance(error, str):
        yield Message("", error)


def _listed(value: object) -> Iterator[Message]:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, Mapping):
            yield from _read(one, id_field="MessageId", text_field="Message")
        elif isinstance(one, str):
            yield Message("", one)


def _read(value: Mapping[str, Any], *, id_field: str, text_field: str) -> Iterator[Message]:
    name, text, args = value.get(id_field), value.get(text_field), value.get("MessageArgs")
    if not (isinstance(text, str) and text.strip()):
        # Some BMCs send only the arguments of a message whose text is in a registry.
        text = ", ".join(one for one in args if isinstance(one, str)) if isinstance(args, list) else ""
    name = name if isinstance(name, str) and _ID.fullmatch(name) else ""
    if name or text:
        yield Message(name, text)
