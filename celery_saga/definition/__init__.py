"""How sagas are written: the decorator, the run that a body gets, steps, signals and policies."""
