"""Results of fits, as the user holds them: releases and numbers computed from releases; never rows."""
