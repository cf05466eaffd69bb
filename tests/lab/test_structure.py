"""The figures that `make lint` holds see what they are named after."""

from __future__ import annotations

from tests.lab.structure import Module, has_second_docstring, loadable, measured, prints_but_is_no_command, reached


def test_a_comment_that_stands_alone_is_a_second_docstring_and_one_above_a_constant_is_none() -> None:
    first = '"""One."""\n\nfrom __future__ import annotations\n\nimport os\n\n# Why 3.\nTHREE = 3\n\n\n'
    subject, function = "# Another subject.\n\n\n", "def one() -> None: ...\n\n\n"
    assert has_second_docstring(f"{first}{subject}{function}")
    assert has_second_docstring(f"{first}{function}{subject}{function}")
    assert not has_second_docstring(f"{first}{function}")


def test_what_is_reached_is_what_imports_lead_to() -> None:
    house = {name: Module("", imported, 0) for name, imported in {"a": ("b", "b.x"), "b": ("c",), "d": ()}.items()}
    assert reached(house | {"c": Module("", (), 0)}, "a") == {"a", "b", "c"}


def test_plugs_that_are_found_in_a_folder_can_be_loaded_though_nothing_names_them() -> None:
    package, plug = Module("\nimport_members(__name__)\n", (), 0), Module("", (), 0)
    house = {"a": Module("", ("plugs.contract",), 0), "plugs": package, "plugs.contract": plug, "plugs.one": plug}
    assert reached(house, "a") == {"a", "plugs.contract"}
    assert loadable(house, "a") == set(house)


def test_a_command_and_the_door_of_the_api_may_print_and_no_other_module() -> None:
    printing = Module("", ("orchestrator.config.console", "orchestrator.config.console.say"), 1)
    names = (
        "orchestrator.commands.data",
        "orchestrator.extras.trackers.export_command",
        "orchestrator.config.notebook",
    )
    assert not any(prints_but_is_no_command(name, printing) for name in names)
    assert prints_but_is_no_command("orchestrator.session.outcome", printing)


def test_a_launch_reaches_its_worker_and_no_page() -> None:
    figures = measured()
    assert figures["modules that launch reaches"] > 100
    assert figures["lines of the largest module"] > 300
