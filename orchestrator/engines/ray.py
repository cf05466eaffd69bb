"""Run the trials of a launch on Ray: in an instance started here, or on the cluster that this machine belongs to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator.execution.engine import ENGINES, Engine, Job
from orchestrator.sweeps.cluster_spec import cores_here, gpus_here, visible_gpus


@ENGINES.register("ray")
@contextmanager
def on_ray(job: Job) -> Iterator[Engine]:
    """Run the trials of `job` in workers of Ray Tune."""
    from orchestrator.ray_engine.cluster import ending_without_nodes, local_cluster, own_cluster
    from orchestrator.ray_engine.slots import slots_for
    from orchestrator.ray_engine.staging import stage

    sweep, where, ahead = job.plan.sweep, job.cluster, job.plan.workload
    # Ray starts a worker per core. If all of them will run trials, they can import what trials need as they start.
    cores, uses_gpus = cores_here(where), bool(sweep.resources.gpus)
    one_each = sweep.resources.cpus == 1 and not uses_gpus and where.concurrency is None
    gpus = gpus_here(where) if uses_gpus and where.is_here else ()
    local = partial(local_cluster, preload=one_each and len(ahead) >= cores, cpus=cores, gpus=len(gpus))
    ray = own_cluster if where.address == "auto" else local
    seen = visible_gpus(where) if gpus else nullcontext()
    with TemporaryDirectory(prefix="permafrost-staged-") as folder, seen, ExitStack() as stack:
        plugins = stage(Path(folder), () if where.is_here else ahead, job.say)
        staged = Path(folder) if plugins.modules or not where.is_here else None
        cluster = stack.enter_context(ray(staged, job.stop.signals.take_back))
        # Ray reads the cluster's settings when it is imported, so these imports follow the cluster's start.
        from orchestrator.ray_engine.trainable import WorkerSettings
        from orchestrator.ray_engine.tune_engine import tune_engine

        slots = slots_for(
            cluster.nodes,
            sweep.resources,
            ahead,
            concurrency=where.concurrency,
            here=gpus,
            most=job.most,
            say=job.say,
        )
        job.say(f"ray     {slots.described()}; dashboard {cluster.dashboard} ({cluster.token_hint})")
        # The final answer takes half a second to import; this process is idle now, so it imports it in the background.
        threading.Thread(target=import_module, args=("orchestrator.analysis.answer",), daemon=True).start()
        settings = WorkerSettings.of(sweep, job.store, plugins=plugins)
        stack.enter_context(ending_without_nodes(job.stop.signals.interrupt, job.desert, cluster.logs))
        engine = stack.enter_context(tune_engine(slots, settings, is_here=where.is_here))
        engine.dashboard = cluster.dashboard if cluster.dashboard.startswith("http") else ""
        engine.label = job.plan.label
        yield engine
