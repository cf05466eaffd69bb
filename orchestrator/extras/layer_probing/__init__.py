"""Probes of every layer of the untouched encoder, and how far training moved it."""

COMMANDS = {
    "layers": (
        "orchestrator.extras.layer_probing.layers_command:layers",
        "Probe every layer of the untouched encoder, and measure how far training moved it; the store keeps both.",
        "Run",
    ),
}
API = {
    "Layers": "orchestrator.extras.layer_probing.layer_probing:Layers",
    "layers": "orchestrator.extras.layer_probing.layer_probing:layers",
}
PARTS = {"/why": ("orchestrator.extras.layer_probing.layers_page:LAYERS",)}
