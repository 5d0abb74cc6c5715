"""The split of the suite: `make test` runs some of every matrix, and nothing of PostgreSQL 15."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.support.full import cover, mark, spread


class Items:
    """Makes test cases as pytest collects them."""

    def __init__(self, session: pytest.Session) -> None:
        self._parent = pytest.Module.from_parent(session, path=session.path / "made_up.py")

    def of(self, test: str, cases: int, *marks: pytest.MarkDecorator, name: str = "{}[{}]") -> list[pytest.Item]:
        made: list[pytest.Item] = []
        for number in range(cases):
            item = pytest.Function.from_parent(self._parent, name=name.format(test, number), callobj=lambda: None)
            for each in marks:
                item.add_marker(each)
            made.append(item)
        return made


def kept(items: list[pytest.Item]) -> list[str]:
    mark(items)
    return [item.name for item in items if not item.get_closest_marker("full")]


@pytest.mark.parametrize(("cases", "keep"), [(1, 1), (2, 3), (5, 5), (105, 12), (1000, 1)])
def test_the_mark_sets_how_many_cases_are_kept_and_the_first_is_always_kept(cases: int, keep: int) -> None:
    numbers = spread(cases, keep=keep)
    assert len(numbers) == min(cases, keep)
    assert 0 in numbers
    assert numbers <= set(range(cases))


@pytest.mark.parametrize(
    ("sizes", "strength", "most"), [((4, 3), 1, 4), ((4, 3), 2, 12), ((4, 3, 2), 2, 12), ((5, 5, 5), 2, 35)]
)
def test_the_kept_cases_of_a_product_have_each_combination(sizes: tuple[int, ...], strength: int, most: int) -> None:
    cases = list(product(*map(range, sizes)))
    kept = [cases[number] for number in cover(cases, strength=strength)]
    for places in combinations(range(len(sizes)), strength):
        assert {tuple(case[n] for n in places) for case in kept} == set(product(*(range(sizes[n]) for n in places)))
    assert len(kept) <= most


def test_some_cases_of_each_matrix_are_kept_and_all_of_other_tests(request: pytest.FixtureRequest) -> None:
    items, matrix = Items(request.session), pytest.mark.matrix(keep=2)
    assert kept([*items.of("a", 4, matrix), *items.of("b", 3, matrix), *items.of("c", 3)]) == [
        *("a[0]", "a[2]", "b[0]", "b[1]", "c[0]", "c[1]", "c[2]"),
    ]


def test_cases_of_the_full_suite_are_not_among_the_kept_ones(request: pytest.FixtureRequest) -> None:
    items, matrix = Items(request.session), pytest.mark.matrix(keep=1)
    others = items.of("a", 3, matrix, pytest.mark.full)
    assert kept([*others, *(own := items.of("a", 3, matrix))]) == [own[0].name]


def test_postgresql_15_runs_no_more_of_a_matrix_than_make_test(request: pytest.FixtureRequest) -> None:
    items, matrix = Items(request.session), pytest.mark.matrix(keep=1)
    current = items.of("a", 3, matrix, name="{}[current-{}]")
    oldest = items.of("a", 3, matrix, pytest.mark.full, name="{}[pg15-{}]")
    mark(cases := [*current, *oldest])
    assert [case.name for case in cases] == ["a[current-0]", "a[current-1]", "a[current-2]", "a[pg15-0]"]


@pytest.mark.usefixtures("every_server")
def test_only_the_full_suite_starts_postgresql_15(request: pytest.FixtureRequest) -> None:
    assert ("pg15" in request.node.name) == (request.node.get_closest_marker("full") is not None)
