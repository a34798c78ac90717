"""Property tests of `step`: an oracle made from docs/use/conditions.md alone, generators, planted faults."""
