"""The house as it was: verbs that have not moved yet run here. It goes when the last one has."""
