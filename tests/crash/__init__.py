"""Death at every point: before and after each statement, commit, publish and effect."""
