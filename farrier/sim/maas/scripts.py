"""The testing scripts that users stored in the region, and the choice of scripts for a test.

A new text becomes a new revision, and the newest revision runs. All responses are those of a recorded region; the
scripts that MAAS brings are left out.
"""

from __future__ import annotations

import base64
import re

from farrier.sim.maas.http.call import Answer, Call, Refused
from farrier.sim.maas.records import Revision, Script
from farrier.sim.maas.region import Region

_TYPES = {"test": 2, "testing": 2, "2": 2, "commission": 0, "commissioning": 0, "0": 0, "release": 3, "3": 3}
_HARDWARE = {"node": (0, "Node"), "cpu": (1, "CPU"), "memory": (2, "Memory"), "storage": (3, "Storage")}
_MAIL = "%a, %d %b %Y %H:%M:%S +0000"


def selected(region: Region, call: Call, problems: dict[str, object]) -> list[Script]:
    """Return the scripts of a test: those with a wanted name, and those that have a wanted text as a *tag*
    (maasserver/models/scriptset.py:328). Writes the form's problem for an unknown text into `problems`."""
    given = [each for text in call.many("testing_scripts") for each in text.split(",")]
    for each in given:
        if not any(each == script.name or each in script.tags for script in region.scripts.values()):
            text = f"Select a valid choice. {each} is not one of the available choices."
            problems["testing_scripts"] = [text]
    wanted = set(given or ["commissioning"])
    return [one for one in region.scripts.values() if one.name in wanted or wanted & set(one.tags)]


def listed(region: Region, call: Call) -> object:
    kind, wanted = call.one("type"), call.one("filters")
    if kind is not None and kind not in _TYPES:
        raise Refused(400, "Script type must be commissioning, testing or release")
    names = None if wanted is None else set(wanted.split(","))
    return [
        _shown(script, texts=bool(call.one("include_script")))
        for script in region.scripts.values()
        if (kind is None or _TYPES[kind] == _type(script))
        and (names is None or script.name in names or names & set(script.tags))
    ]


def read(region: Region, call: Call, name: str) -> object:
    return _shown(_found(region, name), texts=bool(call.one("include_script")))


def download(region: Region, call: Call, name: str) -> object:
    script, wanted = _found(region, name), call.number("revision")
    for revision in script.history:
        if wanted in {None, revision.id}:
            return Answer(content=revision.text.encode(), content_type="application/binary")
    raise Refused(400, f"{wanted} not found in history")


def create(region: Region, call: Call) -> object:
    _administers(call)
    text = call.one("script")
    header = _header(text or "")
    name = call.one("name") or header.get("name", "")
    problems: dict[str, object] = {}
    if name in region.scripts:
        problems["name"] = ["Script with this Name already exists."]
    if re.search(r"[\s'\"]", name):
        problems["name"] = [f"Name '{name}' contains disallowed characters, e.g. space or quotes."]
    if not text:
        problems["script"] = ["Must be given a value"]
    elif not text.startswith("#!/"):
        problems["script"] = ["Must start with shebang."]
    if problems or text is None:
        raise Refused(400, problems)
    script = Script(id=region.next_id("script"), name=name, tags=[], header=header, history=[])
    region.scripts[name] = script
    _change(region, call, script, text)
    return _shown(script, texts=False)


def update(region: Region, call: Call, name: str) -> object:
    _administers(call)
    script, text = _found(region, name), call.one("script")
    if text is not None and not text.startswith("#!/"):
        raise Refused(400, {"script": ["Must start with shebang."]})
    if text is not None:
        script.header = _header(text)
        _change(region, call, script, text)
    return _shown(script, texts=False)


def delete(region: Region, call: Call, name: str) -> object:
    _administers(call)
    del region.scripts[_found(region, name).name]
    return Answer(status=204)


def edited(region: Region, script: Script, text: str, comment: str | None = None) -> None:
    """Add a revision. The text of the newest revision makes no other one (maasserver/fields.py)."""
    if script.history and script.history[0].text == text:
        return
    script.history.insert(
        0, Revision(id=region.next_id("script revision"), text=text, comment=comment, created=region.now)
    )


def _change(region: Region, call: Call, script: Script, text: str) -> None:
    edited(region, script, text, call.one("comment"))
    named = call.one("tags")
    tags = (script.header.get("tags", "") if named is None else named).split(",")
    kinds = (*(tag.strip() for tag in tags), _hardware(script)[1].lower())
    script.tags = list(dict.fromkeys(filter(None, kinds)))


def _found(region: Region, name: str) -> Script:
    number = int(name) if name.isdigit() else None
    for script in region.scripts.values():
        if script.name == name or script.id == number:
            return script
    raise Refused(404, "No Script matches the given query.")


def _administers(call: Call) -> None:
    if not call.user.is_superuser:
        raise Refused(403, "This method is reserved for admin users.")


def _header(text: str) -> dict[str, str]:
    """Return the values in the comment at the start of a script, without those of nested mappings."""
    _, _, rest = text.partition("Start MAAS 1.0 script metadata")
    lines = rest.partition("End MAAS 1.0")[0].splitlines()
    return {key: value for key, value in re.findall(r"^# (\w+): *(.*?) *$", "\n".join(lines), re.MULTILINE) if value}


def _type(script: Script) -> int:
    return _TYPES[script.header.get("script_type", "testing")]


def _hardware(script: Script) -> tuple[int, str]:
    return _HARDWARE[script.header.get("hardware_type", "node")]


def _shown(script: Script, *, texts: bool) -> dict[str, object]:
    number, named = _hardware(script)
    hours, _, rest = script.header.get("timeout", "00:00:00").partition(":")
    return {
        "name": script.name,
        "title": script.header.get("title", ""),
        "description": script.header.get("description", ""),
        "tags": script.tags,
        "hardware_type": number,
        "parallel": 0,
        "results": {},
        "parameters": {},
        "packages": {},
        "timeout": f"{int(hours)}:{rest}",
        "destructive": script.header.get("destructive") == "true",
        "default": False,
        "for_hardware": [],
        "may_reboot": False,
        "recommission": False,
        "apply_configured_networking": False,
        "history": [_revision(revision, texts=texts) for revision in script.history],
        "id": script.id,
        "hardware_type_name": named,
        "type_name": "Testing script",
        "parallel_name": "Disabled",
        "type": _type(script),
        "resource_uri": f"/MAAS/api/2.0/scripts/{script.name}",
    }


def _revision(revision: Revision, *, texts: bool) -> dict[str, object]:
    data = {"data": base64.b64encode(revision.text.encode()).decode()} if texts else {}
    return {"id": revision.id, "comment": revision.comment, "created": revision.created.strftime(_MAIL), **data}
