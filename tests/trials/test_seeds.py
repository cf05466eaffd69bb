"""The seeds of a trial and the integer that pairs trials by them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from trials.settings import Seeds

OWN = st.none() | st.integers(0, 998)
ALL = st.builds(Seeds.of, st.integers(0, 2**32 - 1), OWN, OWN)


@given(ALL)
def test_a_key_says_which_seeds_it_is_of(seeds: Seeds) -> None:
    assert Seeds.from_key(seeds.key) == seeds
    assert seeds.key < 2**53  # exact as a float, in frames and in a browser


@given(ALL)
def test_the_settings_of_seeds_are_those_they_come_from(seeds: Seeds) -> None:
    values = seeds.settings
    assert Seeds.of(values["seed"] or 0, values["init_seed"], values["order_seed"]) == seeds


@each(
    "seeds, key, label",
    [
        (Seeds.of(7), 7, "7"),
        (Seeds.of(7, 7, 7), 7, "7"),
        (Seeds.of(0, 1, 2), 10_000_001_002, "0, init 1, order 2"),
        (Seeds.of(1234, order=5), 11_234_999_005, "1234, order 5"),
    ],
)
def test_a_key_is_the_seed_or_shows_the_three(seeds: Seeds, key: int, label: str) -> None:
    assert seeds.label == Seeds.label_of(key) == label
    assert seeds.key == key
