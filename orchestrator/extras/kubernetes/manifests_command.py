"""Write the Kubernetes manifests of a cluster that runs sweeps.

permafrost manifests kuberay --store s3://bucket/results --workers-cpu 1:4 --out manifests
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from orchestrator.config import options
from orchestrator.config.console import command_group, reported, say
from orchestrator.extras.kubernetes.kuberay import KubeRay, Manifest, Workers, manifests
from orchestrator.sweeps.sweep import load_sweep
from trials.errors import ConfigError
from trials.escaping import read_text

app = command_group("Write the Kubernetes manifests of a cluster.")


@app.callback()
def _manifests() -> None:
    """Write the Kubernetes manifests of a cluster."""


@app.command()
def kuberay(
    name: Annotated[
        str, typer.Option(metavar="N", help="The name of the cluster, and the prefix of all names.")
    ] = "permafrost",
    image: Annotated[
        str,
        typer.Option(
            metavar="I", help="The container image.", show_default="permafrost:cpu; with GPU workers permafrost:cuda"
        ),
    ] = "",
    workers_cpu: Annotated[str, typer.Option(metavar="MIN:MAX", help="Number of workers without a GPU.")] = "1:4",
    workers_gpu: Annotated[str, typer.Option(metavar="MIN:MAX", help="Number of workers with one GPU each.")] = "0:0",
    gpu_kind: Annotated[
        str, typer.Option(metavar="K", help="Use only nodes that are labelled with this kind of GPU.")
    ] = "",
    spot: Annotated[bool, typer.Option("--spot", help="Allow and prefer spot machines for workers.")] = False,
    store: Annotated[str, typer.Option(metavar="URL", help="The results store: s3:// or gs://.")] = "",
    volume: Annotated[
        str, typer.Option(metavar="CLAIM", help="A volume claim for the results, instead of --store.")
    ] = "",
    token_secret: Annotated[
        str, typer.Option(metavar="S", help="The secret with Ray's token under auth_token.", show_default="N-token")
    ] = "",
    sweep: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The YAML file of the sweep.", show_default="starter.yaml")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The output folder.")] = Path("manifests"),
    debug: options.Debug = False,
) -> None:
    """Write RayCluster, RayJob, NetworkPolicy and the sweep's ConfigMap for KubeRay 1.5.1 or newer.

    The RayCluster runs many sweeps; the RayJob starts a cluster for one sweep. No secret is written (docker/README.md).

    Examples:
        permafrost manifests kuberay --store s3://bucket/results --workers-gpu 0:8 --spot

        permafrost manifests kuberay --volume results --sweep my.yaml --out my-cluster

    Exit codes: 0 written, 2 invalid option or sweep, 3 a file is missing or cannot be written.
    """
    with reported(debug=debug):
        counts = _counts(workers_cpu, workers_gpu)
        if sweep:
            load_sweep(sweep, [])  # so that an invalid sweep fails here and not in a pod an hour later
        asked = KubeRay(
            name=name,
            image=image or ("permafrost:cuda" if counts[1].most else "permafrost:cpu"),
            cpu=counts[0],
            gpu=counts[1],
            gpu_kind=gpu_kind,
            spot=spot,
            store=store,
            volume=volume,
            token_secret=token_secret,
            sweep=read_text(sweep) if sweep else "",
        )
        _write(manifests(asked), out)


def _counts(cpu: str, gpu: str) -> list[Workers]:
    counts, problems = [], list[str]()
    for option, text in (("--workers-cpu", cpu), ("--workers-gpu", gpu)):
        try:
            counts.append(Workers.parse(option, text))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return counts


def _write(files: dict[str, Manifest], out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, manifest in files.items():
            (out / name).write_text(as_yaml(manifest), encoding="utf-8")
            say(f"wrote {out / name}")
    except OSError as error:
        raise ConfigError(f"--out: cannot write to {out} ({error.strerror}).", exit_code=3) from error


class _Plain(yaml.SafeDumper):
    """Writes repeated values in full instead of as references, and multi-line text as blocks."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Plain.add_representer(str, _block)


def as_yaml(manifest: Manifest) -> str:
    """The YAML text of one manifest; equal manifests give equal text."""
    return yaml.dump(manifest, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)
