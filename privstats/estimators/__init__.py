"""Conversations: an estimator asks, and turns releases into an estimate. It sees no row."""
