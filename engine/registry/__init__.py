"""The registry: the registrations in force, computed from the subscription topic's records."""
