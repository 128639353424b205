"""Lockstep: the same SQL in an hourly batch and in streams, and the proof that both agree."""
