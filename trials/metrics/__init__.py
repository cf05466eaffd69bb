"""What predictions are scored by. Words and classes are integer ids into names; -1 is no prediction, never correct."""
