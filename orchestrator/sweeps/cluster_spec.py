"""Where a sweep runs, as given by `--cluster`: a word, the address of a Ray cluster's dashboard, or a file.

address: http://head:8265         # or `auto`, `local`, `inline`
resources: {cpus: 4, gpus: packed, device: A100}     # override the sweep's
concurrency: 64                   # trials requested at once, so that an autoscaler adds nodes
store: s3://bucket/freezing       # unless --store is given
limits: {lost: 20}                # override the sweep's
environment: {packages: pinned, variables: {HF_HUB_OFFLINE: "1"}}
prices: {currency: USD, cpu_hour: 0.04, gpu_hour: {A100: 2.1}}
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from orchestrator.config.validation_messages import faults, most
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
    """Prices of a cluster, for the forecast.

    Attributes:
        currency: The currency of all prices.
        cpu_hour: Price of one core for an hour.
        gpu_hour: Price of one GPU for an hour, or by kind of accelerator as Ray names it.
        kwh: Price of a kilowatt-hour, if energy is billed separately.
    """

    currency: Annotated[str, Field(max_length=8)] = "USD"
    cpu_hour: Price = 0.0
    gpu_hour: Price | dict[str, Price] = 0.0
    kwh: Price = 0.0


class Environment(Frozen):
    """The environment of a submitted sweep's processes.

    Attributes:
        packages: ``installed`` uses the nodes' own packages, as in our images; ``pinned`` makes Ray install the
            versions that are installed here. The code of this project is always uploaded.
        variables: Environment variables of all its processes. No secrets: Ray's dashboard shows them.
    """

    packages: Literal["installed", "pinned"] = "installed"
    variables: dict[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], str] = {}


class ClusterSpec(Frozen):
    """Where a sweep runs; not part of a trial's identity.

    Attributes:
        address: ``local`` for a Ray on this machine, ``auto`` for the one that this machine belongs to, ``inline`` for
            none, or the address of a Ray dashboard, to which the sweep is submitted as a job.
        resources: Those given override the sweep's.
        concurrency: Trials requested at the same time, even beyond the available slots; None for as many as there are
            slots, which changes as nodes join and leave.
        store: The results store, unless the command line names one.
        limits: Those given override the sweep's.
        environment: Of a submitted sweep.
        prices: Its prices.
        watch: Log, notifications and trackers; those given override the sweep's.
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
        """The sweep with this cluster's resources, limits and monitoring."""
        changes = {
            name: getattr(sweep, name).model_copy(update={key: getattr(mine, key) for key in mine.model_fields_set})
            for name in ("resources", "limits", "watch")
            if (mine := getattr(self, name)).model_fields_set
        }
        return sweep.model_copy(update=changes)


def find_cluster(text: str) -> ClusterSpec:
    """The cluster that `--cluster` names.

    Raises:
        ConfigError: not a known word, an address or a readable cluster file.
    """
    if text in WORDS or "://" in text:
        return ClusterSpec(address=_checked_address(text, "--cluster "))
    document = Document.read(_file(text), list(ClusterSpec.model_fields))
    try:
        found = ClusterSpec.model_validate(document.content)
    except ValidationError as error:
        problems = [document.place(each.path) + each.text for each in faults(error, ClusterSpec)]
        raise ConfigError(most(problems)) from error
    _checked_address(found.address, document.place(("address",)))
    return found


def _file(text: str) -> Path:
    try:
        path = Path(text).expanduser()
        is_there = path.is_file()
    except (OSError, RuntimeError) as error:  # too long, or the home of an unknown user
        raise ConfigError(
            [f"--cluster {text!r:.200} is not a path ({getattr(error, 'strerror', None) or error})."]
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
    """The address. Raises ConfigError if no sweep can be submitted to it."""
    if address in WORDS:
        return address
    try:
        parts, port = urlsplit(address), urlsplit(address).port
    except ValueError:  # the text may contain a password
        raise ConfigError([f"{place}not a valid address. Write it as http://HEAD:8265."]) from None
    if parts.username or parts.password:
        raise ConfigError(
            f"{place}the address contains a password. Ray's token comes from RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH."
        )
    if address.startswith("ray://"):
        raise ConfigError(
            [
                f"{place}{address}: a sweep's driver must run on the cluster, or a broken connection ends it. Give "
                "the address of its dashboard, http://HEAD:8265, to submit the sweep as a job."
            ]
        )
    is_plain = parts.scheme in ("http", "https") and parts.path in ("", "/") and not (parts.query or parts.fragment)
    is_plain = is_plain and address.isprintable()  # urlsplit removes line ends
    if not is_plain or not parts.hostname or not _HOST.fullmatch(parts.hostname) or port == 0:
        raise ConfigError([f"{place}{address}: must be {', '.join(WORDS)}, or http://HEAD:8265 (https:// behind TLS)."])
    return address.rstrip("/")
