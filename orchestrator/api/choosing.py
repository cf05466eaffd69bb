"""From somebody's data to what to freeze on it, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from orchestrator.api.adapters import TIME, with_lora
from orchestrator.api.answering import Answers
from orchestrator.api.choice import Choice, searched_once_learned
from orchestrator.api.encoder_choice import choice_over_models
from orchestrator.api.planned_question import BEST, PlannedQuestion, export_folder, plan_question, say_plan
from orchestrator.api.rates import rates_of
from orchestrator.api.training import train
from orchestrator.config.console import INTERRUPTED
from orchestrator.config.notebook import CONSOLE, notebook_output
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.session.bounds import Bounds
from orchestrator.session.session import Launch
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import find_cluster
from trials.draft import Lookup
from trials.errors import ConfigError, unknown
from trials.sources.places.model_draft import named_model


@notebook_output("stopped; finished trials are in the store. Call `choose` again with the same arguments to resume.")
def choose(options: ChooseOptions | str = "", **others: Any) -> Choice:
    """Find the deepest freeze that loses at most the tolerance on somebody's data.

    Args:
        options: The data and how to look at it; a bare word is `ChooseOptions.data`.
        others: Further attributes of `ChooseOptions`, beside a bare word: `choose("my-corpus", tolerance=0.5)`.

    Raises:
        ConfigError, DataError, ModelError, MissingError, StoreError: Says what is wrong and what to do.
        RefusedError: A file that would be overwritten is not one of this question; nothing has run.
    """
    asked = _options(options, others)
    launch, folder = _begun(asked)
    if asked.models:
        return choice_over_models(asked, folder, launch)
    planned = plan_question(asked, folder, launch)
    say_plan(planned, launch)
    if asked.dry_run:
        return Choice(Answers(), planned.path, plan=planned.plan, forecast=planned.forecast)
    with_rival, lookup = asked.against is not None, Lookup(offline=asked.offline)
    own = launch.of_time(1 - TIME) if with_rival else launch
    planned, choice, was_stopped = searched_once_learned(planned, own, lookup)
    if with_rival and not was_stopped:
        answers, code = with_lora(choice.answers, planned.question, planned.plan, planned.path, launch, lookup)
        choice, was_stopped = (
            replace(choice, answers=answers, exit_code=max(choice.exit_code, code)),
            code == INTERRUPTED,
        )
    return _with_model(choice, planned, launch) if planned.asked.export is not None and not was_stopped else choice


def _begun(asked: ChooseOptions) -> tuple[Launch, Path]:
    """Where and until when it runs, and the folder of its sweep files; options are checked before data are read."""
    where = find_cluster(asked.cluster, cpus=asked.cpus, gpus=asked.gpus)
    launch = Launch.begin(where, Bounds(hours=asked.max_hours), asked.store, CONSOLE)
    folder = _folder(asked, launch.results)
    asked.check()
    if asked.rates is not None:
        rates_of(asked.rates, 1.0)
    for model in asked.models or (asked.model,):
        named_model(model)
    return launch, folder


def _with_model(choice: Choice, planned: PlannedQuestion, launch: Launch) -> Choice:
    """The choice with the recommended setting, trained and exported; without a decision what the curve recommends, if
    that was asked for, and else nothing.
    """
    asked, freeze = planned.asked, None
    assert asked.export is not None
    if not any(answer.freeze is not None for answer in choice.answers):
        likely = next((answer.decided_by.by_estimate for answer in choice.answers), None)
        if asked.export != BEST or likely is None:
            launch.say(f"model   nothing is exported, as nothing is decided{_instead(likely)}")
            return choice
        freeze = str(likely["freeze"])
        launch.say(f"model   {freeze}: by its mean loss, {likely['loss']:z.2f} points; it is not decided")
    folder = export_folder(asked, planned.question.name)
    machine: dict[str, Any] = {"cluster": asked.cluster, "cpus": asked.cpus, "gpus": asked.gpus}
    model = train(folder, store=asked.store, sweep=planned.question.name, freeze=freeze, **machine)
    return replace(choice, model=model.folder, exit_code=choice.exit_code or model.exit_code)


def _options(options: ChooseOptions | str, others: dict[str, Any]) -> ChooseOptions:
    names = [field.name for field in fields(ChooseOptions)]
    if wrong := [name for name in others if name not in names]:
        raise ConfigError(unknown(wrong[0], names))
    return ChooseOptions(data=options, **others) if isinstance(options, str) else options


def _instead(likely: Mapping[str, Any] | None) -> str:
    """What `--export best` would export."""
    if likely is None:
        return " and no freeze loses so little by its mean"
    return f"; --export {BEST} exports what the curve recommends, {likely['freeze']}"


def _folder(asked: ChooseOptions, results: ResultStore) -> Path:
    """Where the sweep's file goes: beside a store in a folder."""
    if asked.out is not None:
        return Path(asked.out)
    address = str(results.address)
    return Path() if "://" in address else Path(address).parent
