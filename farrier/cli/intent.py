"""`farrier intent`: submits, lists, shows and awaits intents of nodes and of other kinds."""

from __future__ import annotations

from farrier.cli import group
from farrier.cli.connection import with_database
from farrier.cli.intent_list import list_
from farrier.cli.intent_one import get, wait
from farrier.cli.intent_submit import submit

intent = group("intent")
intent.command("submit")(with_database(submit))
intent.command("list")(with_database(list_))
intent.command("get")(with_database(get))
intent.command("wait")(with_database(wait))
