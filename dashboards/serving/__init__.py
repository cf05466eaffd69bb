"""What stands between a browser and the dashboard: who may ask, what every answer says, and the server itself."""
