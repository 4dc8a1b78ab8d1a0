"""Settings of all tests."""

from hypothesis import settings

# A busy machine must not fail a test, and a failure must come back.
settings.register_profile("cliquenet", deadline=None, derandomize=True)
settings.load_profile("cliquenet")
