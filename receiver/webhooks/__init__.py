"""Webhooks: makes events of requests from services that send no CloudEvents, as a declaration says."""
