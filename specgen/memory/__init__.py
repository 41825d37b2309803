"""The planner: what a pair needs, whether that fits, and what would."""
