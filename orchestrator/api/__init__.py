"""Permafrost from Python: plan and launch sweeps, ask for answers, choose a freeze for your own data.

    from orchestrator import api

    print(api.choose("my-treebank", tolerance=0.5).answers)
    api.launch({"name": "mine", "trial": {...}, "space": {...}, "seeds": [0, 1, 2]}, store="results")
    print(api.table("results"))
    api.answer("results")

The commands call these functions. Progress goes to stderr as from the commands. Errors are `PermafrostError`s whose
message says what is wrong, where, and what to do.
"""

from __future__ import annotations

from dataclasses import fields
from inspect import isfunction
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from orchestrator.config.python_arguments import from_python
from trials.plugins.loading import load_installed

if TYPE_CHECKING:
    from orchestrator.api.answering import Answers, answer
    from orchestrator.api.choosing import Choice, choose
    from orchestrator.api.freezing import freeze
    from orchestrator.api.launching import Launched, launch, plan
    from orchestrator.api.model_export import export_model, find_trial
    from orchestrator.api.tabulating import Table, table
    from orchestrator.api.training import TrainedModel, train
    from orchestrator.own_data.choose_options import ChooseOptions
    from orchestrator.store import open_store
    from orchestrator.sweeps.sweep import SweepSpec as Sweep
    from trials.plugins.loading import load as load_plugins

__all__ = [
    "Answers",
    "Choice",
    "ChooseOptions",
    "Launched",
    "Sweep",
    "Table",
    "TrainedModel",
    "answer",
    "choose",
    "export_model",
    "find_trial",
    "freeze",
    "launch",
    "load_plugins",
    "open_store",
    "plan",
    "table",
    "train",
]

_PLACES = {
    "Answers": "orchestrator.api.answering:Answers",
    "Choice": "orchestrator.api.choosing:Choice",
    "ChooseOptions": "orchestrator.own_data.choose_options:ChooseOptions",
    "Launched": "orchestrator.api.launching:Launched",
    "Table": "orchestrator.api.tabulating:Table",
    "TrainedModel": "orchestrator.api.training:TrainedModel",
    "Sweep": "orchestrator.sweeps.sweep:SweepSpec",
    "answer": "orchestrator.api.answering:answer",
    "choose": "orchestrator.api.choosing:choose",
    "export_model": "orchestrator.api.model_export:export_model",
    "find_trial": "orchestrator.api.model_export:find_trial",
    "freeze": "orchestrator.api.freezing:freeze",
    "launch": "orchestrator.api.launching:launch",
    "load_plugins": "trials.plugins.loading:load",
    "open_store": "orchestrator.store:open_store",
    "plan": "orchestrator.api.launching:plan",
    "table": "orchestrator.api.tabulating:table",
    "train": "orchestrator.api.training:train",
}


def __dir__() -> list[str]:
    """What a person may call."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import what is asked for: a reader of a store needs nothing that runs trials."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    load_installed()
    member = resolve_name(_PLACES[name])
    if not isfunction(member):
        return member
    further = [field.name for field in fields(__getattr__("ChooseOptions"))] if name == "choose" else []
    globals()[name] = from_python(member, further)
    return globals()[name]
