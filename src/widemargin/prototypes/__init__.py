"""Learned models: classifiers by nearest prototype."""
