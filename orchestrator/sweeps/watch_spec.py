"""The trackers below `watch` in a sweep or cluster file; each needs an optional extra of this package.

    watch:
      mlflow: {uri: "http://mlflow:5000", experiment: freezing}
      tensorboard: runs
      wandb: {project: freezing, mode: offline}

Credentials come from the environment, as each tracker's own client reads them, never from a file of a sweep.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from trials.errors import ConfigError
from trials.escaping import read_text
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


# The `watch` key of a sweep or cluster file: log, notifications, trackers, and where their secrets come from.
#
#     watch:
#       log: sweep.jsonl                    # one line per event; see orchestrator.monitoring.progress
#       notify:
#         webhook: {url_env: PERMAFROST_WEBHOOK}
#         events: [done, failed, stalled]
#         stalled_minutes: 30
#       tensorboard: runs                   # also mlflow and wandb: see `tracker_spec`
#
# The file contains no secret: it names an environment variable or another file. Anything that looks like a secret is
# refused, and the error does not repeat it.

Event = Literal["done", "failed", "stalled"]
_VARIABLE = r"[A-Z_][A-Z0-9_]*"
_WAY_OUT = "Name an environment variable (url_env) or a file (url_file) that contains it."


def _holds_no_secret(value: Any) -> Any:
    """Refuse a secret in place of its source.

    Only whole mappings are validated, never a single text, because an error about a text repeats it.
    """
    if not isinstance(value, Mapping):
        return value
    for place in ("notify", "webhook"):
        if isinstance(value.get(place), str):
            raise ValueError(f"{place}: must be a mapping; a plain text could be a secret. {_WAY_OUT}")
    if isinstance(value.get("mlflow"), str):
        raise ValueError("mlflow: must be a mapping of uri and experiment; a plain text could be a secret")
    if "url" in value:
        raise ValueError(f"url is not allowed in a sweep's file. {_WAY_OUT}")
    variable, file = value.get("url_env"), value.get("url_file")
    if variable is not None and not (isinstance(variable, str) and re.fullmatch(_VARIABLE, variable)):
        raise ValueError(f"url_env must be the name of a variable, in capitals, not a secret. {_WAY_OUT}")
    if isinstance(file, str) and ("://" in file or "\n" in file):
        raise ValueError(f"url_file must be the path of a file, not a secret. {_WAY_OUT}")
    return value


class _Guarded(Frozen):
    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, value: Any) -> Any:
        return _holds_no_secret(value)


class WebhookSpec(_Guarded):
    """A webhook in the format of Slack and Mattermost; exactly one of the two is given.

    Attributes:
        url_env: Environment variable with the address.
        url_file: File with the address.
    """

    url_env: str | None = None
    url_file: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> WebhookSpec:
        if (self.url_env is None) == (self.url_file is None):
            raise ValueError("give one of url_env, url_file")
        return self


class NotifySpec(_Guarded):
    """Recipients and events of notifications.

    Attributes:
        webhook: A webhook to post to.
        events: `done`: all trials completed. `failed`: some did not, or the sweep gave up, broke, or got SIGTERM.
            `stalled`: trials run or wait, but none started, was evaluated or ended for `stalled_minutes`; sent once.
        stalled_minutes: Should exceed the duration of the slowest epoch, set-up included.
    """

    webhook: WebhookSpec
    events: list[Event] = ["done", "failed", "stalled"]  # `on` would be a boolean in YAML
    stalled_minutes: Annotated[float, Field(gt=0)] = 30.0


class WatchSpec(_Guarded):
    """Monitoring of a sweep; not part of a trial's identity.

    Attributes:
        log: File to which the log is appended, one JSON object per line, new or an earlier log; None for no log.
        notify: Recipients of messages about its end and stalls.
        mlflow: A server that receives one run per trial; None for none.
        tensorboard: Folder for TensorBoard's files; None for none.
        wandb: A project of Weights & Biases that receives one run per trial; None for none.
    """

    log: Annotated[str, Field(min_length=1)] | None = None
    notify: NotifySpec | None = None
    mlflow: MlflowSpec | None = None
    tensorboard: Annotated[str, Field(min_length=1)] | None = None
    wandb: WandbSpec | None = None

    @property
    def trackers(self) -> list[str]:
        """The trackers that are named."""
        return [name for name in TRACKERS if getattr(self, name) is not None]

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


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    return host.strip("[]") in {"localhost", "::1"} or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


def read_secret(variable: str | None, file: str | None) -> str:
    """The content of an environment variable or a file, stripped.

    Raises:
        ConfigError: it is missing or empty. The message names the source, never its content.
    """
    if variable is not None:
        text, place = os.environ.get(variable, ""), f"the variable {variable}"
    else:
        assert file is not None
        place = f"the file {file}"
        try:
            text = read_text(file)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"watch.notify: {place} cannot be read ({type(error).__name__}).", exit_code=3) from None
    if not text.strip():
        raise ConfigError(f"watch.notify: {place} is not set or is empty. Put the secret there, or remove `notify`.")
    return text.strip()
