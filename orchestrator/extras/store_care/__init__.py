"""Verify and export stores."""

COMMANDS = {
    "export tables": (
        "orchestrator.extras.store_care.store_command:export_",
        "Export the tables for other programs, without duplicates, with a description of each column.",
        "Share",
    ),
    "export store": (
        "orchestrator.extras.store_care.store_command:export_store_",
        "Write a compact copy of a store for others, without weights and without the folders of this machine.",
        "Share",
    ),
}
GROUPS = {
    "store": ("orchestrator.extras.store_care.store_command:app", "Verify stores and note sweeps.", "Operate"),
}
