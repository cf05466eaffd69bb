"""What a plan finds out about a model before any trial starts; some of it is asked again by workers."""
