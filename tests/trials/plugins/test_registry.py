"""A registry answers with the plug, or with the words it knows."""

from __future__ import annotations

import pytest

from trials.plugins.loading import Registry


def numbers() -> Registry[int]:
    registry: Registry[int] = Registry("number")
    registry.register("two")(2)
    registry.register("one")(1)
    return registry


def test_a_plug_is_found_under_its_word() -> None:
    assert numbers()["two"] == 2


def test_the_words_come_sorted() -> None:
    assert list(numbers()) == ["one", "two"]


def test_a_word_is_known_or_not() -> None:
    assert "one" in numbers()
    assert "three" not in numbers()


def test_registering_hands_the_plug_back() -> None:
    registry: Registry[type] = Registry("kind")

    @registry.register("thing")
    class Thing:
        pass

    assert registry["thing"] is Thing


def test_an_unknown_word_is_answered_with_the_nearest_and_all_known_ones() -> None:
    with pytest.raises(ValueError, match=r"^unknown 'on', did you mean 'one'\? Known: one, two\. One of a plug-in: "):
        numbers()["on"]


def test_a_word_of_another_module_is_taken() -> None:
    registry = numbers()
    with pytest.raises(ValueError, match=rf"number 'one' is registered by {__name__} already. Choose another name"):
        exec("registry.register('one')(3)", {"registry": registry, "__name__": "another"})


def test_a_module_may_register_its_word_again_as_a_notebook_does() -> None:
    registry = numbers()
    registry.register("one")(3)
    assert registry["one"] == 3
