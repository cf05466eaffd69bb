"""Engines, which run the trials of a launch. Importing the package registers them, one module for each."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from orchestrator.execution.engine import ENGINES, Engine, EngineStartError, Job
from orchestrator.sweeps.cluster_spec import DefaultCluster
from trials.plugins.members import import_members

import_members(__name__)


@contextmanager
def started_engine(job: Job) -> Iterator[Engine]:
    """The engine of a job's cluster; where nobody named one and it does not start, this process.

    Raises:
        ConfigError, EngineStartError: As `MakesEngine`.
    """
    with ExitStack() as stack:
        try:
            engine = stack.enter_context(ENGINES[job.cluster.engine](job))
        except EngineStartError as error:
            if not isinstance(job.cluster, DefaultCluster):
                raise
            job.stop.signals.take_back()  # Ray may have gone so far as to handle them
            job.say(f"note    {error}\n        Trials run without it, one at a time, as with --cluster inline.")
            inline = job.cluster.model_copy(update={"address": "inline"})
            engine = stack.enter_context(ENGINES[inline.engine](replace(job, cluster=inline)))
        yield engine
