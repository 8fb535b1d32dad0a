"""The search for the fastest configuration that fits, and the plan file."""
