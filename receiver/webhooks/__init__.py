"""Webhooks: requests of services that send no CloudEvents, as events by a declaration."""
