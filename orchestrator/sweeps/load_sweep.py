"""Read a sweep from YAML: its plug-ins loaded, its paths found, all its mistakes in one message."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from orchestrator.config.command_line import configs_folder
from orchestrator.config.yaml_document import Document, faults, first_problems
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.named_paths import resolve_beside_file
from orchestrator.sweeps.sweep import SweepSpec, listed_word
from trials.draft import Lookup, TrialDraft
from trials.errors import ConfigError
from trials.plugins.loading import load


def load_sweep(path: Path, settings: list[str]) -> tuple[SweepSpec, Document]:
    """Read a sweep from YAML, with settings overridden by `KEY=VALUE`. Raises ConfigError.

    A path that is a mere name, and no file, names an included sweep.
    """
    included = configs_folder("sweeps") / f"{path.name}.yaml"
    if path.name == str(path) and not path.exists() and included.exists():
        path = included
    document = Document.read(path, [*SweepSpec.model_fields, *TrialDraft.model_fields])
    for setting in settings:
        document.override(setting)
    return declared_sweep(document), document


def sweep_of_text(path: Path, text: str) -> tuple[SweepSpec, Document]:
    """A sweep from the text of a file that is not written yet. Raises ConfigError."""
    document = Document.of_text(path, text)
    return declared_sweep(document), document


def declared_sweep(document: Document) -> SweepSpec:
    """The sweep that a document declares, with its plug-ins loaded and its paths found. Raises ConfigError."""
    _load_plugins(document)
    resolve_beside_file(document)
    try:
        return SweepSpec.model_validate(document.content)
    except ValidationError as error:
        all_faults = faults(error, SweepSpec)
        # a bare list does not write `choice`
        paths = [tuple(part for part in fault.path if part != "choice") for fault in all_faults]
        problems = [document.place(path) + fault.text for path, fault in zip(paths, all_faults, strict=True)]
        wrong = {fault.path[0] if fault.path else "space" for fault in all_faults}
        raise ConfigError(first_problems([*problems, *_problems_of_the_rest(document, wrong)])) from error


def _load_plugins(document: Document) -> None:
    """Load the modules that are listed under `plugins`; what is no list of words is reported with all other faults."""
    named = listed_word(document.content.get("plugins", []))
    if isinstance(named, list):
        beside = (document.path.parent, Path())
        for n, module in enumerate(named):
            if isinstance(module, str):
                load([module], beside, document.place(("plugins", n)).removesuffix(": "))


def _problems_of_the_rest(document: Document, wrong: set[int | str]) -> tuple[str, ...]:
    """Errors in the trials of a sweep that has errors in other keys, so that one message has all. Fetches nothing."""
    rest = {key: document.content.get(key, {}) for key in ("trial", "space") if key not in wrong}
    if "data" not in rest.get("trial", {}) and wrong & {"trial", "space"}:
        return ()
    try:
        expand(SweepSpec.model_validate({"name": "rest", **rest}), document, Lookup(is_check=True))
    except ConfigError as error:
        return error.problems
    except ValidationError:  # a distribution, which needs the invalid search
        return ()
    return ()
