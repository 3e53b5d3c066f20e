"""The engine's verbs over a real store."""
