"""What a person declares: sweeps, their axes and spaces, searches, clusters; and the plan that follows."""
