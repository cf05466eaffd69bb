"""Runs of a sweep for MLflow, TensorBoard and Weights & Biases, written from its store."""

COMMANDS = {
    "export runs": (
        "orchestrator.extras.trackers.export_command:export_runs",
        "Write one run per trial to MLflow, TensorBoard or Weights & Biases; runs of an earlier export are replaced.",
        "Share",
    ),
}
