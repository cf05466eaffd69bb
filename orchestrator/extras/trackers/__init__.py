"""Runs of a sweep for MLflow, TensorBoard and Weights & Biases: while it runs, or afterwards from its store."""

COMMANDS = {
    "export mlflow": (
        "orchestrator.extras.trackers.export_command:mlflow",
        "Write one run per trial to MLflow, nested under one of the sweep; runs of an earlier export are updated.",
        "Share",
    ),
    "export tensorboard": (
        "orchestrator.extras.trackers.export_command:tensorboard",
        "Write scalars and hparams for TensorBoard, one folder per trial; files of an earlier export are replaced.",
        "Share",
    ),
    "export wandb": (
        "orchestrator.extras.trackers.export_command:wandb",
        "Write one run per trial for Weights & Biases; runs of an earlier export are replaced.",
        "Share",
    ),
}
MONITORS = {("mlflow", "tensorboard", "wandb"): "orchestrator.extras.trackers.live_tracker"}
