"""`farrier intent`: submits, lists, shows and awaits intents of nodes and of other kinds."""

from __future__ import annotations

from farrier.cli import group
from farrier.cli.intent.get import get, wait
from farrier.cli.intent.listing import list_
from farrier.cli.intent.submit import submit
from farrier.cli.settings.connection import with_database

intent = group("intent")
intent.command("submit")(with_database(submit))
intent.command("list")(with_database(list_))
intent.command("get")(with_database(get))
intent.command("wait")(with_database(wait))
