"""Sets of contributions: each set clamps a row's vector and bounds the distance between any two contributions."""
