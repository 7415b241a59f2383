"""Results of fits: releases and numbers computed from releases, never rows."""
