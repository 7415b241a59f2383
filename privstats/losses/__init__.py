"""Losses, and functions of a row for queries. Of this code, only the module `convex` affects privacy guarantees."""
