"""K-norm gradient mechanisms for quantile regressions, and their samplers."""
