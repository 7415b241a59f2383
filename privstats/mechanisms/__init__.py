"""The only code that draws noise: each sampler beside its theorem."""
