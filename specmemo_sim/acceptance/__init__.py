"""How many of a tree's tokens the target accepts per step."""
