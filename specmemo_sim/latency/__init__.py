"""Roofline times of prefill, drafting and verification."""
