"""A model as a YAML file declares it, from a folder or another source, and what its configuration says of it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import model_validator

from trials.errors import ModelError, excerpt, quote
from trials.models.family import MODEL_FAMILIES, REFUSED
from trials.models.model_files import ADAPTER, INDEX, PICKLE, WEIGHTS, revision_of
from trials.outside.plain_files import read_json
from trials.plugins.registry import Registry
from trials.sources.source import FileSource, Sourced, absolute, is_path, near_hint
from trials.spec import ModelSpec
from trials.starter import STARTER, model_path

MOST_LAYERS = 2_000  # also of experts; the deepest encoders have about 100 layers, the widest 512 experts
MOST_LABELS = 100_000  # of the head that the weights came with, which is not used; the library names each
MODEL_SOURCES: Registry[FileSource[ModelDraft, LocatedModel]] = Registry("source of models")


class LocatedModel(NamedTuple):
    """A folder with configuration, weights and tokenizer.

    Attributes:
        source: Its repository and commit; None for a folder of this machine.
    """

    folder: Path
    name: str
    source: str | None = None


class ModelDraft(Sourced):
    """A model as a YAML file declares it; a bare word is `starter`, a folder, or a repository of the hub.

    Attributes:
        folder: `starter`, or a folder with config.json, weights and a tokenizer.
        hub: A repository of the model hub, e.g. ``FacebookAI/roberta-base``.
        revision: Its commit, tag or branch; without one the newest commit. Only a commit never changes.
        allow_pickle: Whether weights may be a pickle, which can run arbitrary code when it is loaded.
    """

    sources: ClassVar = MODEL_SOURCES
    folder: str | None = None
    hub: str | None = None
    revision: str | None = None
    allow_pickle: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> ModelDraft:
        if (self.folder is None) == (self.hub is None):
            raise ValueError("name the model in one way: `folder` or `hub`")
        if self.hub is None and self.revision is not None:
            raise ValueError("`revision` is of a repository of the `hub`")
        self.sources[self.way]
        return self

    @property
    def way(self) -> str:
        """The key that says where it comes from."""
        return "folder" if self.hub is None else "hub"


def named_model(name: str) -> ModelDraft:
    """The model that a name refers to: `starter`, a folder, or a repository of the hub, in this order.

    A repository is `NAME` or `OWNER/NAME`, after `hub:` or not, with `@REVISION` or not.

    Raises:
        ConfigError: after `hub:` there is no name, or after `@` no revision.
    """
    return ModelDraft.model_validate(ModelDraft.keys_of(name))


def find_model(draft: ModelDraft, *, offline: bool = False) -> ModelSpec:
    """The model that a YAML file declares, downloaded if necessary.

    Raises:
        ModelError: no such folder or repository, a file of it missing or broken, weights that are a pickle without
            `allow_pickle`, or an architecture that cannot be frozen layer by layer.
    """
    found = MODEL_SOURCES[draft.way].locate(draft, offline=offline)
    family, n_layers, n_positions = model_shape(found.folder)
    pickle = _is_pickle(found.folder, allow_pickle=draft.allow_pickle)
    return ModelSpec(
        name=found.name,
        path=str(found.folder),
        revision=revision_of(found.folder, pickle=pickle),
        family=family,
        n_layers=n_layers,
        n_positions=n_positions,
        pickle=pickle,
        source=found.source,
    )


def _is_pickle(folder: Path, *, allow_pickle: bool) -> bool:
    if (folder / WEIGHTS).is_file() or (folder / INDEX).is_file():
        return False
    if not (folder / PICKLE).is_file():
        raise ModelError(f"{folder}: has no {WEIGHTS}. Save the model with `save_pretrained`, as safetensors.")
    if not allow_pickle:
        raise ModelError(
            f"{folder}: its weights are a pickle ({PICKLE}), which can run arbitrary code when it is loaded. Save "
            "them as safetensors, or say `allow_pickle: true` if you trust where it came from."
        )
    return True


def _locate(draft: ModelDraft, *, offline: bool) -> LocatedModel:
    assert draft.folder is not None
    if draft.folder == STARTER:
        return LocatedModel(model_path(), STARTER)
    folder = absolute(draft.folder, ModelError, "a folder with config.json")
    if not folder.is_dir():
        raise ModelError(
            f"no model folder at {folder}.{near_hint(draft.folder, [STARTER])} Give a folder with config.json, "
            f"{STARTER!r}, or a repository of the hub as NAME or OWNER/NAME."
        )
    return LocatedModel(folder, folder.name)


MODEL_SOURCES.register("folder")(
    FileSource(_locate, lambda word: {"folder": word} if word == STARTER or is_path(word) or ":" in word else None)
)


def model_shape(folder: Path) -> tuple[str, int, int]:
    """Family, layers and usable positions of a model, by its configuration. Raises ModelError if it is refused."""
    config = _config(folder)
    family = str(config.get("model_type", ""))
    _refuse_quantised(folder, config)
    _refuse_large(folder, config)
    if family in REFUSED:
        raise ModelError(f"{folder / 'config.json'}: {family} is refused: {REFUSED[family]}. Use another model.")
    if family in MODEL_FAMILIES:
        traits = MODEL_FAMILIES[family]
    else:
        from trials.models.unregistered import generic_family

        traits = generic_family(folder, config)
    taken = _padding(folder, config) + 1 if traits.positions_from_pad else traits.first_position
    n_positions = _number(folder, config, traits.positions_key)
    if n_positions <= taken:
        raise ModelError(
            f"{folder / 'config.json'}: {traits.positions_key}: {n_positions:,} positions, of which {taken:,} are used "
            "up by padding (pad_token_id). Use the configuration that belongs to the model."
        )
    return family, _number(folder, config, traits.layers_key), n_positions - taken


def _config(folder: Path) -> dict[str, Any]:
    path, base = folder / "config.json", ""
    if (folder / ADAPTER).is_file():
        with suppress(OSError, ValueError, RecursionError, AttributeError):
            base = f", {quote(read_json(folder / ADAPTER).get('base_model_name_or_path'))}"
        raise ModelError(
            f"{folder / ADAPTER}: the weights are those of an adapter, not of a whole model. Merge it into its model"
            f"{base} (`merge_and_unload` of peft), and save that."
        )
    if not path.exists():
        if other := next(iter(sorted(folder.glob("*_config.json"))), None):
            raise ModelError(
                f"{other}: is no configuration of transformers, as the original BERT's is none. Convert the model, "
                "or give one with config.json."
            )
        inner = sorted(path.parent for how in ("*", "snapshots/*") for path in folder.glob(f"{how}/config.json"))
        listed = ", ".join(str(path) for path in inner[:3])
        way_out = f"There is one in {listed}: give that folder" if inner else "Give another folder"
        raise ModelError(
            f"{folder}: has no config.json, so it is no model. {way_out}, or write hub:OWNER/NAME for a repository of "
            "the hub."
        )
    try:
        config = read_json(path)
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{path}: not a readable model configuration ({reason}).") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path}: not a model configuration, which is a JSON object.")
    return config


def _number(folder: Path, config: dict[str, Any], key: str) -> int:
    number = config.get(key)
    if not isinstance(number, int) or number < 1:
        raise ModelError(f"{folder / 'config.json'}: {key}: {quote(number)} is not a positive whole number.")
    return number


def _refuse_large(folder: Path, config: dict[str, Any]) -> None:
    """Raise ModelError where reading the model, which makes an object for each layer and label, would not end."""
    for key, value in config.items():
        is_count = key.startswith(("num_", "n_")) or key.endswith("layers")
        is_bounded = is_count and any(part in key for part in ("layer", "expert", "label"))
        most = MOST_LABELS if "label" in key else MOST_LAYERS
        if is_bounded and isinstance(value, int) and value > most:
            raise ModelError(
                f"{folder / 'config.json'}: {excerpt(key)}: {quote(value)} is more than {most:,}, the "
                "most that a model may have. Use another model."
            )


def _refuse_quantised(folder: Path, config: dict[str, Any]) -> None:
    if how := config.get("quantization_config"):
        method = f" by {quote(how['quant_method'])}" if isinstance(how, dict) and "quant_method" in how else ""
        raise ModelError(
            f"{folder / 'config.json'}: quantization_config: its weights are quantised{method}, so they cannot be "
            "trained. Use the model that they were made from, with weights in floating point."
        )


def _padding(folder: Path, config: dict[str, Any]) -> int:
    padding = config.get("pad_token_id") or 0
    if not isinstance(padding, int) or padding < 0:
        raise ModelError(f"{folder / 'config.json'}: pad_token_id: {quote(padding)} is not a whole number.")
    return padding
