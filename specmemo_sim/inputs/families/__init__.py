"""One rule per decoder family: from a configuration to the tensors and caches of its layers."""
