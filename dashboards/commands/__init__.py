"""The commands that show what a store holds: `dashboard`, `demo`, `report`, `export figure`."""
