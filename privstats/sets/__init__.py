"""Sets of possible contributions of rows to a total; projecting each row's vector into a set bounds the sensitivity."""
