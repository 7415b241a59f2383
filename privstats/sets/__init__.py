"""Sets of possible contributions of rows; a row's vector is projected into a set, which bounds the sensitivity."""
