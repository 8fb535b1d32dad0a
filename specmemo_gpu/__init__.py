"""The backend that runs a plan on torch; it may import the simulator, never the other way round."""
