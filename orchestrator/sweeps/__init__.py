"""What a user declares (sweeps, their axes and spaces, searches, clusters), and the plan that follows from it.

Importing the package registers the kinds of search.
"""

from orchestrator.sweeps import search_points as search_points
