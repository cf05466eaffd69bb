"""Text from outside, made safe for the places where it is shown."""
