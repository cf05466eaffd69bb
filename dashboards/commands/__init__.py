"""The commands that show what a store holds: `dashboard`, `report`, `paper`, `export`."""
