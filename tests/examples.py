"""Inputs of the tests: `each` runs a table of them as one test, `examples` and `first` say how many are drawn.

By default a tenth is, and all where PERMAFROST_ALL_EXAMPLES is set: `make test-slow`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ParamSpec

import pytest

WORKING = "working-"  # how the names of tests' working folders begin
P = ParamSpec("P")
ALL = bool(os.environ.get("PERMAFROST_ALL_EXAMPLES"))


def examples(number: int) -> int:
    """Of so many examples, those of this run."""
    return number if ALL else max(2, number // 10)


def first(number: int, values: Iterable[Any]) -> list[Any]:
    """Parameters of which so many run with the fast tests, and the others are slow ones."""
    return [value if i < number else pytest.param(value, marks=pytest.mark.slow) for i, value in enumerate(values)]


def refusal_of(function: Callable[P, object], kind: type[Exception]) -> Callable[P, str]:
    """The function as one that has to raise such an error, and returns its message."""

    def refused(*args: P.args, **options: P.kwargs) -> str:
        with pytest.raises(kind) as error:
            function(*args, **options)
        return str(error.value)

    return refused


def each(
    names: str, rows: Iterable[Any], *, quick: int | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`parametrize` as one test: every row runs, and the test fails with all rows that do, each with its values.

    A row has a working folder, a `tmp_path` and a `monkeypatch` of its own, unless a fixture has gone elsewhere;
    all other fixtures are shared by the rows.
    With `quick`, so many rows are the test of the quick suite, and the others a slow one.
    """
    keys, table = [name.strip() for name in names.split(",")], list(rows)
    if any(hasattr(row, "marks") for row in table):
        raise TypeError(f"each({names!r}): a row has no marks; give `quick`.")
    part = f"rows_of_{'_'.join(keys)}"
    parts = [pytest.param(table[:quick], id="quick"), pytest.param(table[quick:], id="rest", marks=pytest.mark.slow)]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def every(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            asked = fixtures.pop(part) if quick else table
            for number, row in enumerate(asked):
                values = dict(zip(keys, [row] if len(keys) == 1 else row, strict=True))
                try:
                    with _of_its_own(fixtures, number) as own:
                        test(**own, **values)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note("with " + ", ".join(f"{key}={value!r:.200}" for key, value in values.items()))
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(asked)} rows", failures)

        fixtures = [parameter for parameter in signature.parameters.values() if parameter.name not in keys]
        if quick:
            fixtures.append(inspect.Parameter(part, inspect.Parameter.KEYWORD_ONLY))
        every.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return pytest.mark.parametrize(part, parts)(every) if quick else every

    return decorate


@contextlib.contextmanager
def _of_its_own(fixtures: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    own = dict(fixtures)
    with contextlib.ExitStack() as stack:
        if Path.cwd().name.startswith(WORKING):  # no fixture has gone elsewhere
            stack.enter_context(contextlib.chdir(tempfile.mkdtemp(prefix=WORKING, dir=Path.cwd())))
            if "tmp_path" in own:
                own["tmp_path"] = own["tmp_path"] / f"row{number}"
                own["tmp_path"].mkdir()
        if "monkeypatch" in own:
            own["monkeypatch"] = stack.enter_context(pytest.MonkeyPatch.context())
        if "capsys" in own:
            own["capsys"].readouterr()
        yield own
