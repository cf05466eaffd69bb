"""Where a sweep runs: words, addresses, files; and mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.sweeps.cluster_spec import ClusterSpec, Prices, find_cluster
from orchestrator.sweeps.sweep import Limits, Resources, SweepSpec
from tests.examples import each
from trials.errors import ConfigError

CLUSTERS = Path(__file__).parents[3] / "configs" / "clusters"


@each("path", sorted(CLUSTERS.glob("*.yaml")))
def test_each_cluster_of_the_repository_can_be_read(path: Path) -> None:
    assert isinstance(find_cluster(str(path)), ClusterSpec)


@pytest.mark.parametrize("word", ["local", "auto", "inline"])
def test_a_word_is_driven_from_here(word: str) -> None:
    assert find_cluster(word) == ClusterSpec(address=word)
    assert not find_cluster(word).is_remote


@pytest.mark.parametrize("address", ["http://head:8265", "https://ray.example.org", "http://[::1]:8265/"])
def test_an_address_is_a_cluster_somewhere_else(address: str) -> None:
    assert find_cluster(address).is_remote


@each(
    "text, told",
    [
        ("ray://head:10001", "a sweep's driver must run on the cluster.*http://HEAD:8265"),
        ("http://me:secret@head:8265", "the address contains a password. Ray's token comes from RAY_AUTH_TOKEN"),
        ("ray://me:secret@head:10001", "the address contains a password"),
        ("http://me:secret@head:port", "--cluster not a valid address. Write it as http://HEAD:8265"),
        ("http://me:secret@[::1", "not a valid address"),
        ("http://he ad:8265", "must be local, auto, inline, or http://HEAD:8265"),
        ("ftp://head", "must be local, auto, inline, or http://HEAD:8265"),
        ("http://head:8265/api/jobs", "must be local, auto, inline, or http://HEAD:8265"),
        ("http://head\nTraceback", r"http://head Traceback: must be local"),
        ("x" * 300, "is not a path .File name too long"),
        ("~nobody-here/a.yaml", "is not a path .Could not determine home directory"),
        ("loacl", "must be local, auto, inline, the address of a Ray's dashboard.*configs/clusters/"),
        ("absent.yaml", "absent.yaml"),
    ],
)
def test_what_is_no_cluster_is_refused_with_the_way_out(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        find_cluster(text)
    assert "secret" not in str(raised.value)


def test_a_mistake_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("address: auto\nresources: {cpu: 2}\nprices: {gpu_hour: {A100: -1}}\n")
    with pytest.raises(ConfigError) as raised:
        find_cluster(str(file))
    assert "c.yaml:2: resources.cpu: unknown 'cpu', did you mean 'cpus'?" in str(raised.value)
    assert "c.yaml:3: prices.gpu_hour" in str(raised.value)


def test_ray_client_in_a_file_is_refused_on_its_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("address: ray://head:10001\n")
    with pytest.raises(ConfigError, match=r"c.yaml:1: address: ray://head:10001: a sweep's driver must run"):
        find_cluster(str(file))


def test_a_clusters_resources_and_limits_go_over_the_sweeps_each_by_itself() -> None:
    sweep = SweepSpec(name="s", resources=Resources(cpus=3, gpus=1), limits=Limits(lost=2, alike=7))
    cluster = ClusterSpec(resources=Resources(gpus="packed"), limits=Limits(lost=50))
    over = cluster.over(sweep)
    assert over.resources == Resources(cpus=3, gpus="packed")
    assert over.limits == Limits(lost=50, alike=7)


def test_a_cluster_that_says_nothing_leaves_the_sweep_as_it_is() -> None:
    sweep = SweepSpec(name="s", resources=Resources(cpus=3))
    assert ClusterSpec(prices=Prices(cpu_hour=1)).over(sweep) == sweep


@pytest.mark.parametrize("text", ["auto", "http://head:8265"])
def test_parts_of_this_machine_are_not_those_of_a_cluster(text: str) -> None:
    with pytest.raises(ConfigError, match=f"what a launch uses of this machine, but {text} is a cluster"):
        find_cluster(text, gpus=0)


def test_the_command_line_goes_over_a_clusters_file(tmp_path: Path) -> None:
    (file := tmp_path / "c.yaml").write_text("cpus: 3\ngpus: 1\n")
    found = find_cluster(str(file), gpus=0)
    assert (found.cpus, found.gpus) == (3, 0)
