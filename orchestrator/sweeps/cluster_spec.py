"""Where a sweep runs, as `--cluster` names it: a word, the address of a Ray's Jobs, or a file.

address: http://head:8265         # or `auto`, `local`, `inline`
resources: {cpus: 4, gpus: packed, device: A100}     # over the sweep's
concurrency: 64                   # trials asked for at a time, so that an autoscaler adds nodes for them
store: s3://bucket/freezing       # unless --store is given
limits: {lost: 20}                # over the sweep's
environment: {packages: pinned, variables: {HF_HUB_OFFLINE: "1"}}
prices: {currency: USD, cpu_hour: 0.04, gpu_hour: {A100: 2.1}}
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from orchestrator.config.validation_messages import most, wording
from orchestrator.config.yaml_document import Document
from orchestrator.sweeps.notification_spec import WatchSpec
from orchestrator.sweeps.sweep import Limits, Resources, SweepSpec
from trials.errors import ConfigError
from trials.settings import Frozen, Positive

WORDS = ("local", "auto", "inline")
_FILES = (".yaml", ".yml")
_HOST = re.compile(r"[\w.:%-]+")
Price = Annotated[float, Field(ge=0)]


class Prices(Frozen):
    """What a cluster costs, for the forecast.

    Attributes:
        currency: Of all prices.
        cpu_hour: Of a core for an hour.
        gpu_hour: Of a GPU for an hour, or by kind of accelerator as Ray names it.
        kwh: Of a kilowatt-hour, where energy is paid for besides.
    """

    currency: Annotated[str, Field(max_length=8)] = "USD"
    cpu_hour: Price = 0.0
    gpu_hour: Price | dict[str, Price] = 0.0
    kwh: Price = 0.0


class Environment(Frozen):
    """What the processes of a submitted sweep find on the cluster.

    Attributes:
        packages: ``installed`` to use what its nodes have, as with an image of ours; ``pinned`` to have Ray install
            the very versions that are installed here. The code of this project always comes from here.
        variables: Set in all processes of the sweep. No secrets: they would be shown on Ray's dashboard.
    """

    packages: Literal["installed", "pinned"] = "installed"
    variables: dict[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], str] = {}


class ClusterSpec(Frozen):
    """Where a sweep runs; nothing of it changes what a trial is.

    Attributes:
        address: ``local`` for a Ray on this machine, ``auto`` for the one this machine belongs to, ``inline`` for
            none, or the address of a Ray's dashboard, where the sweep is submitted as a job.
        resources: Over those of the sweep, each by itself.
        concurrency: Trials that are asked for at the same time, whether there is room for them or not; None for as
            many as there is room for, which changes as nodes come and go.
        store: The results store, unless the command line names one.
        limits: Over those of the sweep, each by itself.
        environment: Of a submitted sweep.
        prices: What it costs.
        watch: Logs and messages, over those of the sweep.
    """

    address: str = "local"
    resources: Resources = Resources()
    concurrency: Positive | None = None
    store: str | None = None
    limits: Limits = Limits()
    environment: Environment = Environment()
    prices: Prices = Prices()
    watch: WatchSpec = WatchSpec()

    @property
    def is_remote(self) -> bool:
        """Whether the sweep is submitted to a cluster rather than driven from here."""
        return self.address not in WORDS

    def over(self, sweep: SweepSpec) -> SweepSpec:
        """The sweep with this cluster's resources and limits."""
        changes = {
            name: getattr(sweep, name).model_copy(update=mine.model_dump(exclude_unset=True))
            for name in ("resources", "limits", "watch")
            if (mine := getattr(self, name)).model_fields_set
        }
        return sweep.model_copy(update=changes)


def find_cluster(text: str) -> ClusterSpec:
    """What `--cluster` names.

    Raises:
        ConfigError: neither a word, an address nor a readable file of clusters.
    """
    if text in WORDS or "://" in text:
        return ClusterSpec(address=_checked_address(text, "--cluster "))
    document = Document.read(_file(text))
    try:
        found = ClusterSpec.model_validate(document.content)
    except ValidationError as error:
        problems = [document.place(e["loc"]) + wording(e, ClusterSpec) for e in error.errors()]
        raise ConfigError(most(problems)) from error
    _checked_address(found.address, document.place(("address",)))
    return found


def _file(text: str) -> Path:
    try:
        path = Path(text).expanduser()
        is_there = path.is_file()
    except (OSError, RuntimeError) as error:  # too long; nobody's home
        raise ConfigError(
            [f"--cluster {text!r:.200} is no path ({getattr(error, 'strerror', None) or error})."]
        ) from error
    if path.suffix not in _FILES and not is_there:
        raise ConfigError(
            [
                f"--cluster {text}: must be {', '.join(WORDS)}, the address of a Ray's dashboard as http://HEAD:8265, "
                "or a file like those in configs/clusters/."
            ]
        )
    return path


def _checked_address(address: str, place: str) -> str:
    """The address. Raises ConfigError: not one that a sweep can be sent to."""
    if address in WORDS:
        return address
    try:
        parts, port = urlsplit(address), urlsplit(address).port
    except ValueError:  # its words may hold a password
        raise ConfigError([f"{place}no address that can be read. Give it as http://HEAD:8265."]) from None
    if parts.username or parts.password:
        raise ConfigError(
            f"{place}the address holds a password. Ray's token comes from RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH."
        )
    if address.startswith("ray://"):
        raise ConfigError(
            [
                f"{place}{address}: a sweep's driver must live on the cluster, or a broken connection ends it. Give "
                "the address of its dashboard, http://HEAD:8265, and the sweep goes there as a job."
            ]
        )
    is_plain = parts.scheme in ("http", "https") and parts.path in ("", "/") and not (parts.query or parts.fragment)
    is_plain = is_plain and address.isprintable()  # urlsplit passes over ends of lines
    if not is_plain or not parts.hostname or not _HOST.fullmatch(parts.hostname) or port == 0:
        raise ConfigError([f"{place}{address}: must be {', '.join(WORDS)}, or http://HEAD:8265 (https:// behind TLS)."])
    return address.rstrip("/")
