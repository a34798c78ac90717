"""The forms in which conditions are written: JSON and text."""
