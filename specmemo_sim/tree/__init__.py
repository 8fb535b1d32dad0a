"""Token trees: what is drafted and verified in one step."""
