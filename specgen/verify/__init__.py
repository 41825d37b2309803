"""Proof on the user's own pair that drafts change nothing: in law, in the path of a seed, and within rounding."""
