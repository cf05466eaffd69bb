"""The `watch` key of a sweep or cluster file: a log, and trackers, each of which needs an optional extra.

    watch:
      log: sweep.jsonl                    # one line per event; see `orchestrator.monitoring.json_log`
      mlflow: {uri: "http://mlflow:5000", experiment: freezing}
      tensorboard: runs
      wandb: {project: freezing, mode: offline}

Credentials come from the environment, as each tracker's own client reads them, never from a file of a sweep.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from trials.errors import ConfigError
from trials.settings import Frozen

TRACKERS = ("mlflow", "tensorboard", "wandb")  # keys, extras and packages
_SERVER = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:\d{1,5})?(/[\w./-]*)?", re.ASCII)
_LOGIN = "The user and password, or the token, come from the environment (MLFLOW_TRACKING_USERNAME, ..._TOKEN)."


def _printable(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("must be one line of visible characters")
    return text


class MlflowSpec(Frozen):
    """A tracking server of MLflow.

    Attributes:
        uri: Its address, http:// or https://, without credentials.
        experiment: Name of the experiment; created if there is none.
    """

    uri: str
    experiment: Annotated[str, Field(min_length=1, max_length=250), AfterValidator(_printable)]

    @model_validator(mode="before")
    @classmethod
    def _holds_no_secret(cls, value: Any) -> Any:
        """Refuse what is not a plain address; as errors about a text repeat it, the whole mapping is validated."""
        uri = value.get("uri") if isinstance(value, Mapping) else None
        if uri is not None and not (isinstance(uri, str) and _SERVER.fullmatch(uri)):
            raise ValueError(f"uri must be http://HOST:PORT or https://HOST, without a user or a query. {_LOGIN}")
        return value


class WandbSpec(Frozen):
    """A project of Weights & Biases.

    Attributes:
        project: Its name.
        mode: `offline` writes runs below `wandb/` (or WANDB_DIR), which `wandb sync` uploads later.
    """

    project: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=120)]
    mode: Literal["online", "offline"] = "online"


def check_installed(trackers: Iterable[str]) -> None:
    """Raise ConfigError if the package of a tracker is not installed."""
    missing = []
    for name in trackers:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:  # a mere folder of that name, as W&B makes one, has no origin
            missing.append(f"watch.{name}: {name} is not installed. Run: pip install 'permafrost-sweeps[{name}]'")
    if missing:
        raise ConfigError(missing)


class WatchSpec(Frozen):
    """Monitoring of a sweep; not part of a trial's identity.

    Attributes:
        log: File to which the log is appended, one JSON object per line, new or an earlier log; None for no log.
        mlflow: A server that receives one run per trial; None for none.
        tensorboard: Folder for TensorBoard's files; None for none.
        wandb: A project of Weights & Biases that receives one run per trial; None for none.
    """

    log: Annotated[str, Field(min_length=1)] | None = None
    mlflow: MlflowSpec | None = None
    tensorboard: Annotated[str, Field(min_length=1)] | None = None
    wandb: WandbSpec | None = None

    @property
    def trackers(self) -> list[str]:
        """The trackers that are named."""
        return [name for name in TRACKERS if getattr(self, name) is not None]

    @model_validator(mode="before")
    @classmethod
    def _holds_no_secret(cls, value: Any) -> Any:
        """Refuse an address in place of MLflow's mapping; an error about a text would repeat it."""
        if isinstance(value, Mapping) and isinstance(value.get("mlflow"), str):
            raise ValueError("mlflow: must be a mapping of uri and experiment; a plain text could be a secret")
        return value

    @field_validator("log")
    @classmethod
    def _is_log(cls, path: str | None) -> str | None:
        if path is not None and (_is_hidden(path) or not path.endswith(".jsonl")):
            raise ValueError("name a file that ends in .jsonl; neither it nor a folder may start with a dot")
        return path

    @field_validator("tensorboard")
    @classmethod
    def _is_visible(cls, path: str | None) -> str | None:
        if path is not None and _is_hidden(path):
            raise ValueError("no folder of the path may start with a dot")
        return path


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in Path(path).parts)
