"""What resources of other event systems become here, and what is left out, with its reason."""
