"""The front doors: one verb a model, one call each."""
