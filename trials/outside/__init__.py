"""What comes from outside, checked: files that others name, and values that they write."""
