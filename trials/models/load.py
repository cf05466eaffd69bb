"""Load a model with a new task head from a model folder; a process reads each folder once."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import transformers
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

from trials.errors import ModelError, reason
from trials.models.family import MODEL_FAMILIES, Head, ModelFamily, Parts, StepMode, pool_at_last_subword
from trials.models.model_files import WEIGHTS, planned_files, shards
from trials.models.padding_free import lay_end_to_end
from trials.models.products import use_fastest_products
from trials.models.unregistered import generic_family
from trials.outside.plain_files import read_json
from trials.spec import ModelSpec

transformers.logging.set_verbosity_error()  # a new classifier is intended
transformers.logging.disable_progress_bar()

HEAD_STD = 0.02  # initializer_range of BERT and DistilBERT
SUPPORTED_ATTENTION = (None, "sdpa", "eager")  # the others need extra packages or a GPU, or cannot be trained
_CLASSES = {"tokens": AutoModelForTokenClassification, "text": AutoModelForSequenceClassification}


@dataclass(frozen=True)
class LoadedModel:
    """A model with a task head, and its parts.

    Attributes:
        first_position: The position id of a sentence's first subword, if the model is prepared for rows of sentences
            (`models.padding_free`); None if its batches are padded.
        stack_path: Dotted path of the list of encoder layers, within the model without its head.
    """

    model: nn.Module
    parts: Parts
    first_position: int | None = None
    stack_path: str = ""

    @property
    def stack(self) -> Any:
        """The list of encoder layers, beginning with the lowest one that was not removed."""
        model: Any = self.model
        return getattr(model, model.base_model_prefix).get_submodule(self.stack_path)

    def params(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.model.parameters())

    def trainable_params(self) -> int:
        """Number of parameters that are trained."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)


def family_of(spec: ModelSpec) -> ModelFamily:
    """The registered family of a model, or one derived from its architecture."""
    return MODEL_FAMILIES[spec.family] if spec.family in MODEL_FAMILIES else _derived_family(spec)


def has_token_types(spec: ModelSpec) -> bool:
    """Whether token types mark the two texts of a pair: the family uses them, and their table has two rows."""
    config = read_json(Path(spec.path) / "config.json")
    return family_of(spec).token_types and config.get("type_vocab_size", 2) > 1  # the library's default is 2


@lru_cache(maxsize=4)
def _derived_family(spec: ModelSpec) -> ModelFamily:
    folder = Path(spec.path)
    with planned_files(spec):
        return generic_family(folder, read_json(folder / "config.json"))


@lru_cache(maxsize=4)
def load_tokenizer(spec: ModelSpec, head: Head) -> PreTrainedTokenizerBase:
    """The model's tokenizer with a padding token, cached in the process. Raises ModelError."""
    tokenizer = read_tokenizer(spec, head)
    if tokenizer.pad_token_id is None:  # a decoder's; padding is masked, so any token will do
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if tokenizer.pad_token_id is None:
        raise ModelError(f"{spec.path}: its tokenizer has no padding token. Add `pad_token` to tokenizer_config.json.")
    return tokenizer


def read_tokenizer(spec: ModelSpec, head: Head) -> PreTrainedTokenizerBase:
    """The model's tokenizer exactly as its files define it; it may lack a padding token. Raises ModelError."""
    options = {"add_prefix_space": True} if head == "tokens" and family_of(spec).prefix_space else {}
    try:
        with planned_files(spec):
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
                spec.path, local_files_only=True, trust_remote_code=False, **options
            )
    except ModelError:
        raise
    except Exception as error:  # the tokenizers library raises a plain Exception for a broken file
        raise ModelError(f"{spec.path}: its tokenizer cannot be loaded: {error or type(error).__name__}") from error
    if not tokenizer.is_fast:
        raise ModelError(f"{spec.path}: its tokenizer has no fast version, which aligns words and subwords.")
    return tokenizer


def load_model(
    spec: ModelSpec,
    *,
    head: Head,
    n_outputs: int,
    dropout: float | None,
    init: torch.Generator,
    mode: StepMode = "rows",
) -> LoadedModel:
    """The pretrained encoder in fp32 on the CPU, with a new head initialised from `init`.

    In mode `rows` the model is prepared for rows of several sentences without padding, if its architecture allows it.

    Raises:
        ModelError: the weights cannot be read or do not fill the encoder.
    """
    use_fastest_products()
    template, missing, first_position = _template(spec, head, n_outputs, dropout, mode)
    model = copy.deepcopy(template)
    family = family_of(spec)
    loaded = LoadedModel(model, family.parts(model), first_position, family.stack)
    names = {id(p): name for name, p in model.named_parameters()}
    prefix = f"{model.base_model_prefix}."
    for module in loaded.parts.head:
        for inner in module.modules():
            new = [names[id(p)] for p in inner.parameters(recurse=False)]
            if new and all(name in missing or not name.startswith(prefix) for name in new):
                _initialise(inner, init)
    return loaded


def head_class(head: Head, config: Any) -> Any:
    """The class in transformers that adds a task head to this configuration's model; None if there is none."""
    return _CLASSES[head]._model_mapping.get(type(config), None)


@lru_cache(maxsize=2)
def _template(
    spec: ModelSpec, head: Head, n_outputs: int, dropout: float | None, mode: StepMode
) -> tuple[Any, frozenset[str], int | None]:
    """The model before its head is initialised, the names of the parameters its files lack, and its first position."""
    model, report = read_model(spec, head, head_config(spec, head, n_outputs, dropout))
    missing = filled_from_files(spec, model, report)
    return model, missing, prepare(model, family_of(spec), head, mode)


def read_model(spec: ModelSpec, head: Head, config: Any) -> tuple[Any, dict[str, Any]]:
    """A model with a head, and the report by transformers on which parameters its files contain.

    Raises:
        ModelError: the weights cannot be read.
    """
    try:
        # The library draws the head from torch's global generator, so its state is restored; `load_model` draws again.
        # `devices=[]`: saving the state of the GPUs' generators would create a context on each GPU.
        with planned_files(spec), torch.random.fork_rng(devices=[]):
            model, report = _CLASSES[head].from_pretrained(
                spec.path, config=config, dtype=torch.float32, local_files_only=True, trust_remote_code=False,
                use_safetensors=not spec.pickle, ignore_mismatched_sizes=True, output_loading_info=True,
            )  # fmt: skip
    except UnpicklingError as error:  # torch reads only tensors, also with `allow_pickle`
        raise ModelError(
            f"{spec.path}: its pickle holds more than tensors and is not loaded. Use safetensors."
        ) from error
    except (ImportError, OSError, RuntimeError, ValueError, SafetensorError) as error:
        what = reason(error)
        raise ModelError(f"{spec.path}: its weights cannot be loaded ({what}). Fetch or copy them again.") from error
    return model, report


def prepare(model: Any, family: ModelFamily, head: Head, mode: StepMode) -> int | None:
    """Adapt a transformers model in place to the mode it is trained in; return `LoadedModel.first_position`."""
    if head == "text" and family.causal:
        pool_at_last_subword(model)
    if mode == "plain":
        model.set_attn_implementation("eager")
    first_position = model.config.pad_token_id + 1 if family.positions_from_pad else family.first_position
    takes_rows = mode == "rows" and lay_end_to_end(model, first_position, pooled=head == "text")
    return first_position if takes_rows else None


def head_config(spec: ModelSpec, head: Head, n_outputs: int, dropout: float | None) -> Any:
    """The model's configuration with a task head; what its file says about attention and outputs is overridden.

    Raises:
        Exception: whatever the configuration's class raises for entries of the wrong kind.
    """
    family = family_of(spec)
    with planned_files(spec):
        config = AutoConfig.from_pretrained(
            spec.path, local_files_only=True, trust_remote_code=False, num_labels=n_outputs
        )
    config.return_dict, config.output_attentions, config.output_hidden_states = True, False, False
    for key in ("transformers_weights", "fusion_config"):  # they name another file, and modules the weights do not fit
        if getattr(config, key, None) is not None:
            setattr(config, key, None)
    if getattr(config, "gradient_checkpointing", False):
        config.gradient_checkpointing = False  # it fails if the frozen layers are not recomputed
    if config._attn_implementation not in SUPPORTED_ATTENTION:
        config._attn_implementation = None  # the library's choice: PyTorch's own attention where there is one
    for key in family.dropout_keys if dropout is not None else ():
        setattr(config, key, dropout)
    if hasattr(config, "use_cache"):
        config.use_cache = False  # cached keys and values serve generation only
    if config.pad_token_id is None:
        config.pad_token_id = load_tokenizer(spec, head).pad_token_id
    return config


def filled_from_files(spec: ModelSpec, model: Any, report: dict[str, Any]) -> frozenset[str]:
    """The names of parameters that the files lack or hold in another shape, according to the report of transformers.

    Raises:
        ModelError: parameters of the encoder are among them, or the files hold weights in 8 bits.
    """
    shapes = {name: (tuple(has), tuple(needs)) for name, has, needs in report["mismatched_keys"]}
    missing = frozenset(report["missing_keys"]) | set(shapes)
    names = {id(p): name for name, p in model.named_parameters()}
    head_names = {names[id(p)] for module in family_of(spec).parts(model).head for p in module.parameters()}
    lost = sorted(missing & set(names.values()) - head_names)
    for name in lost:
        if name in shapes:
            has, needs = shapes[name]
            raise ModelError(f"{spec.path}: its weights have {name} of shape {has}, but its config.json needs {needs}.")
    if lost:
        raise ModelError(f"{spec.path}: its weights lack {', '.join(lost[:3])}: not this architecture.")
    _refuse_eight_bits(spec)
    return missing


def _refuse_eight_bits(spec: ModelSpec) -> None:
    """Raise ModelError if a tensor is stored in 8 bits: the library would cast it to float without dequantising it."""
    folder = Path(spec.path)
    for name in [] if spec.pickle else shards(folder) or [WEIGHTS]:
        with safe_open(folder / name, "pt") as file:
            for key in file.keys():  # noqa: SIM118  (it is no dictionary)
                if (kind := file.get_slice(key).get_dtype()) in ("I8", "U8") or kind.startswith("F8"):
                    raise ModelError(
                        f"{folder}: {key} is stored in 8 bits ({kind}): its weights are quantised, so they cannot be "
                        "trained. Use the model that they were made from, with weights in floating point."
                    )


@torch.no_grad()
def _initialise(module: nn.Module, init: torch.Generator) -> None:
    for name, parameter in module.named_parameters(recurse=False):
        if name.endswith("bias"):
            parameter.zero_()
        elif isinstance(module, nn.LayerNorm):
            parameter.fill_(1.0)
        else:
            parameter.normal_(0.0, HEAD_STD, generator=init)
