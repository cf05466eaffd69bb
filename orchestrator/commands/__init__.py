"""The commands of `permafrost`, one file each: they parse, call and print."""
