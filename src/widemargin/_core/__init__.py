"""What every estimator stands on: checks, samples, decisions, progress."""
