"""Running trials, without Ray: the queue, its sources, events, the recorder, checkpoints."""
