"""Running trials, without Ray: the queue, the contract of engines, the recorder, signals."""
