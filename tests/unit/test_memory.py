"""The garbage collector skips exactly the objects that existed before the loop began."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from farrier import memory


@pytest.fixture
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


class Ring:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("collector")
def test_live_objects_are_excluded_from_later_collections_and_new_garbage_is_collected() -> None:
    gone = weakref.ref(Ring())
    before = gc.get_freeze_count()
    memory.settle()
    memory.settle()
    assert gone() is None, "new garbage was not collected"
    assert gc.get_freeze_count() > before
    later = weakref.ref(Ring())
    gc.collect()
    assert later() is None
