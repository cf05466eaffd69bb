"""The numbers of published studies, and their comparison with ours."""

COMMANDS = {
    "compare": (
        "orchestrator.extras.published.compare_command:compare",
        "Judge whether the trials of a store reproduce a published study, or say why they cannot be compared.",
        "Read",
    ),
}
