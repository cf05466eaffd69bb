"""Settings in YAML by number: right ones, nearly right ones and attacks, each taken as `permafrost launch` would.

A sweep is planned, and its trials are given out for made-up results; one file in ten is a cluster's.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import NamedTuple

from orchestrator.search.kinds import source_of
from orchestrator.search.kinds.kind import PlanInStore
from orchestrator.storage.address import is_address, parse_address
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import find_cluster
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan, make_plan
from tests.builders import write_texts, write_treebank
from tests.lab.fuzz.attacks import ATTACKS
from tests.lab.fuzz.judging import Verdict, contents, judged
from tests.lab.fuzz.playing import play
from tests.lab.fuzz.right import right_cluster, right_sweep
from tests.lab.fuzz.spoiling import edited, setting, spoil, text
from trials.draft import Lookup
from trials.spec import TrialSpec

LIMIT_S = 10.0


class Configuration(NamedTuple):
    """A file of settings.

    Attributes:
        kind: `right`, which must work; `spoiled`, of which some values are odd; `edited`, of which the text is damaged
            too; `attack`.
        content: The file's bytes.
        settings: What `--set` puts over it.
        is_cluster: Whether it says where to run rather than what.
    """

    kind: str
    content: bytes
    settings: tuple[str, ...] = ()
    is_cluster: bool = False


class Configurations:
    """Makes and takes configurations, with one lookup for all, as within a plan.

    Attributes:
        folder: Where the corpora and the file are.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self._bank = write_treebank(folder / "bank", train=6, dev=2, test=2)
        texts = write_texts(folder / "texts", train=6, dev=4, test=2)
        self._corpora = {"pos": self._bank, "sst2": texts, "stsb": texts}
        self._lookup = Lookup(offline=True)
        self._before = contents(folder)

    def make(self, number: int) -> Configuration:
        """The configuration of this number, always the same."""
        rng = random.Random(f"configuration {self.seed} {number}")
        if rng.random() < 0.01:
            return Configuration("attack", rng.choice(ATTACKS)(rng).replace("BANK", str(self._bank)).encode())
        is_cluster = rng.random() < 0.1
        tree = right_cluster(rng) if is_cluster else right_sweep(rng, self._corpora)
        if rng.random() < 0.2:
            return Configuration("right", text(rng, tree).encode(), is_cluster=is_cluster)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            spoil(rng, tree)
        settings = () if is_cluster else tuple(setting(rng) for _ in range(rng.choice((0, 0, 0, 0, 1, 2))))
        content = text(rng, tree).encode("utf-8", "surrogatepass")
        if rng.random() < 0.25:
            return Configuration("edited", edited(rng, content), settings, is_cluster)
        return Configuration("spoiled", content, settings, is_cluster)

    def try_out(self, configuration: Configuration) -> Verdict:
        """Take it and judge what comes of it."""
        path = self.folder / "settings.yaml"
        path.write_bytes(configuration.content)
        take = self._cluster if configuration.is_cluster else self._sweep
        verdict = judged(lambda: take(path, configuration.settings), limit_s=LIMIT_S)
        path.unlink()
        if contents(self.folder) != self._before:
            return Verdict("finding", "planning it changed the folder")
        if configuration.kind == "right" and verdict.word == "refused":
            return Verdict("finding", f"a right configuration is refused: {verdict.text[:300]}")
        return verdict

    def _cluster(self, path: Path, settings: tuple[str, ...]) -> None:
        cluster = find_cluster(str(path))
        if cluster.store is not None and is_address(cluster.store):
            parse_address(cluster.store)

    def _sweep(self, path: Path, settings: tuple[str, ...]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            store = ResultStore(Path(folder) / "store")
            plan = make_plan(*load_sweep(path, list(settings)), store, self._lookup)
            _check(plan)
            if plan.sweep.search.is_adaptive or not plan.runs_all:
                play(source_of(PlanInStore(plan, store)), random.Random(f"results {plan.sweep.name}"))


def _check(plan: Plan) -> None:
    specs = plan.ahead
    assert specs, "an empty plan"
    assert len({spec.trial_id for spec in specs}) == len(specs), "a trial twice"
    for spec in specs[:2]:  # a plan is kept as JSON and read again
        again = TrialSpec.model_validate_json(spec.model_dump_json())
        assert (again, again.trial_id) == (spec, spec.trial_id), "another trial after writing and reading"
