"""Run the trials of a launch on Ray: one that is started here, or the cluster that this machine belongs to."""

from __future__ import annotations

import threading
from contextlib import ExitStack, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator.backends.backend import BACKENDS, Work
from orchestrator.sweeps.cluster_spec import cores_here, gpus_here, seen_gpus


@BACKENDS.register("ray")
def on_ray(work: Work) -> None:
    """Run them in workers of Ray Tune."""
    from orchestrator.ray_backend.cluster import ending_without_nodes, local_cluster, own_cluster
    from orchestrator.ray_backend.slots import slots_for
    from orchestrator.ray_backend.staging import stage

    sweep, where = work.plan.sweep, work.cluster
    # Ray starts a worker per core. If each of them runs trials, they may import what these need at once.
    cores, uses_gpus = cores_here(where), bool(sweep.resources.gpus)
    one_each = sweep.resources.cpus == 1 and not uses_gpus and where.concurrency is None
    each_works = one_each and len(work.plan.ahead) >= cores
    gpus = gpus_here(where) if uses_gpus and where.is_here else ()
    local = partial(local_cluster, preload=each_works, cpus=cores, gpus=len(gpus))
    ray = own_cluster if where.address == "auto" else local
    seen = seen_gpus(where) if gpus else nullcontext()
    with TemporaryDirectory(prefix="permafrost-staged-") as folder, seen, ExitStack() as watching:
        plugins = stage(Path(folder), () if where.is_here else work.plan.ahead, work.say)
        cluster = watching.enter_context(ray(Path(folder) if plugins.modules or not where.is_here else None))
        work.stop.signals.running(lambda: work.queue.is_over)
        from orchestrator.ray_backend.driver import run_sweep  # Ray reads the settings of the cluster on import
        from orchestrator.ray_backend.ray_internals import once_disconnected
        from orchestrator.ray_backend.trainable import WorkerSettings

        once_disconnected(work.stop.signals.take_back)
        watching.enter_context(ending_without_nodes(work.stop.signals.interrupt, work.desert))
        slots = slots_for(
            cluster.nodes,
            sweep.resources,
            work.plan.ahead,
            concurrency=where.concurrency,
            here=gpus,
            most=work.most,
            say=work.say,
        )
        shares = slots.shares.items()
        hourly = max(where.prices.hourly(share.cpus, share.gpus, kind) for kind, share in shares)
        work.say(f"ray     {slots.described()}; dashboard {cluster.dashboard} ({cluster.token_hint})")
        work.announce(cluster.dashboard if cluster.dashboard.startswith("http") else "")
        settings = WorkerSettings.of(sweep, work.results.address, plugins=plugins)
        # What the end of a launch shows takes half a second to import, while this process has nothing else to do.
        threading.Thread(target=import_module, args=("orchestrator.analysis.answer",), daemon=True).start()
        with work.heard(hourly) as listener:
            run_sweep(work.queue, listener, slots=slots, settings=settings, stop=work.stop)
            work.stop.ended(all_ran=work.queue.is_over)
        work.commit()  # before Ray is left, which resets the handlers of signals
