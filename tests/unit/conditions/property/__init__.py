"""Property tests of `step`: an oracle written from docs/conditions.md alone, generators, planted faults."""
