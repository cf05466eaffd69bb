"""Expand a sweep into its trials: every point of its space under every seed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import islice
from typing import Any

from pydantic import ValidationError

from orchestrator.config.yaml_document import MAX_MISTAKES, Document, faults, first_problems, set_path
from orchestrator.sweeps.search_points import points_of
from orchestrator.sweeps.space import PlacedError, Point
from orchestrator.sweeps.sweep import MAX_TRIALS, SweepSpec
from trials.draft import DraftError, Lookup, ModelKey, TrialDraft
from trials.errors import ConfigError, NotFetchedError, PermafrostError
from trials.spec import Frozen, TrialSpec

MOST_SINCE = 300  # points that are still checked after the first error, to report others too


def expand(sweep: SweepSpec, document: Document, lookup: Lookup) -> list[TrialSpec]:
    """The distinct trials of a sweep, in order. For an adaptive search they are those of random cells.

    Raises:
        ConfigError: all errors, each with file, line and key; `exit_code` is 3 if only files are at fault.
    """
    specs = dict[str, TrialSpec]()
    problems: dict[str, int] = {}
    points = points_of(sweep.search, sweep.space, layers_of(sweep, lookup))
    check = Lookup(is_check=True)
    n_since = 0  # points since the first error
    point = Point({}, {})  # of the first error, if an axis has no value
    while n_since <= MOST_SINCE:
        try:
            if (following := next(points, None)) is None:
                break
            point = following
            for spec in replicates(sweep, point, lookup):
                lookup.note_same(specs.setdefault(spec.trial_id, spec).freeze, spec.freeze)
        except (ValidationError, DraftError) as error:
            problems = _problems(sweep, document, point, error, check) | problems
        except NotFetchedError:  # of a sweep that has mistakes elsewhere
            n_since += 1
        n_since += bool(problems)
        # Every cell of an adaptive search has a random cell in its place.
        are_enough = sweep.search.is_adaptive and len(specs) >= (sweep.search.cells or 0) * len(set(sweep.seeds))
        if len(problems) > MAX_MISTAKES or len(specs) > MAX_TRIALS or are_enough:
            break
    if len(specs) > MAX_TRIALS:
        text = f"a sweep has at most {MAX_TRIALS:,} trials. Split it into several sweeps."
        problems[document.place(("space",)) + text] = 2
    if problems:
        raise ConfigError(first_problems(problems), exit_code=min(problems.values()))
    return list(specs.values())


def declared_size(sweep: SweepSpec) -> tuple[int, int] | None:
    """(settings, trials) as declared. No file is read, so two spellings of one setting count twice.

    None where the settings depend on the layers of a model that is not on this machine.
    """
    points = points_of(sweep.search, sweep.space, layers_of(sweep, Lookup(offline=True)))
    try:
        n = len([*islice(points, MAX_TRIALS)])
    except PlacedError:
        return None
    settings = min(n, sweep.search.cells or n)
    return settings, settings * len(set(sweep.seeds))


def replicates(sweep: SweepSpec, point: Point, lookup: Lookup) -> list[TrialSpec]:
    """The trials of one point. Raises ValidationError or DraftError if its settings are not valid."""
    first = TrialDraft.model_validate({**_content(sweep, point), "seed": sweep.seeds[0]}).resolve(lookup)
    if len(set(sweep.seeds)) > 1 and None not in (first.subset_seed, first.init_seed, first.order_seed):
        text = (
            "with `subset_seed` and `order_seed` as well, nothing is left that the seed draws, so all `seeds` would "
            "give one and the same result. Leave one out, or list one seed."
        )
        raise DraftError([(("init_seed",), text)], 2)
    return [first.with_seed(seed) for seed in dict.fromkeys(sweep.seeds)]  # validity does not depend on the seed


def layers_of(sweep: SweepSpec, lookup: Lookup) -> Callable[[Point], int]:
    """A function from a point to the number of encoder layers of its model; it raises PlacedError."""

    def n_layers(point: Point) -> int:
        try:
            given = {key: value for key, value in _content(sweep, point).items() if key == "model"}
            draft = _ModelOnly.model_validate(given)
            return lookup.model(draft.model).n_layers
        except ValidationError as error:
            wrong = [(point.place(fault.path), fault.text) for fault in faults(error, _ModelOnly)]
            raise PlacedError(wrong, 2) from error
        except NotFetchedError:
            raise
        except PermafrostError as error:
            raise PlacedError([(point.place(("model",)), str(error))], error.exit_code) from error

    return n_layers


class _ModelOnly(Frozen):
    model: ModelKey = TrialDraft.model_fields["model"].default


def _content(sweep: SweepSpec, point: Point) -> dict[str, Any]:
    """The content of a trial's draft."""
    content = copy.deepcopy(sweep.trial)
    for key, value in point.dotted_settings():
        path = tuple(key.split("."))
        try:
            set_path(content, path, copy.deepcopy(value))
        except TypeError as error:
            raise DraftError([(path, str(error))], 2) from error
    return content


def _problems(
    sweep: SweepSpec, document: Document, point: Point, error: ValidationError | DraftError, check: Lookup
) -> dict[str, int]:
    """The problems of a point, each with file, line and key, and its exit code.

    Where settings are not valid, also what is wrong with the rest, as its files and depth; nothing is fetched for that.
    """
    if isinstance(error, DraftError):
        place = (lambda path: path) if isinstance(error, PlacedError) else point.place
        return {document.place(place(path)) + text: error.exit_code for path, text in error.problems}
    wrong = faults(error, TrialDraft)
    rest = {key: value for key, value in _content(sweep, point).items() if (key,) not in {f.path[:1] for f in wrong}}
    found = {document.place(point.place(fault.path)) + fault.text: 2 for fault in wrong}
    try:
        TrialDraft.model_validate(rest).resolve(check)
    except DraftError as also:
        return found | _problems(sweep, document, point, also, check)
    except (ValidationError, NotFetchedError):  # what is wrong is needed to judge the rest
        return found
    return found
