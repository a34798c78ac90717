"""Declarations of well-known senders. What a declaration gives replaces what its preset gives.

Facts from the senders' documentation, by page and section:

- GitHub: "Webhook events and payloads", Delivery headers; "Creating webhooks", content type of forms; types
  and subjects after CloudEvents' "GitHub CloudEvents Adapter". Its source, `repository.url`, is the web
  address in a push and the API's address in any other event; `repository.html_url` is the same in all.
- GitLab: "Webhooks", Delivery headers: only Idempotency-Key (17.4) stays the same when a request is sent
  again and differs between requests. "Webhook events", object_kind and object_attributes.
- Slack: "The Events API", Callback field overview; "Slash commands", Preparing your app to receive commands;
  "Handling user interaction", Request URLs: one form field, `payload`.
- Stripe: "The Event object"; "Connect webhooks", `account`; of API v2 "Event notifications",
  `related_object` and `context`.
- Standard Webhooks 1.0.0: Payload structure (type, timestamp); Webhook headers (webhook-id).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PRESETS: Final[Mapping[str, Mapping[str, object]]] = {
    "github": {
        "type": [
            "com.github.{header.x-github-event}.{data.action}",
            "com.github.{header.x-github-event}",
        ],
        "source": [
            "{data.repository.html_url}",
            "{data.repository.url}",
            "{data.organization.url}",
            "/webhooks/{name}",
        ],
        "id": "{header.x-github-delivery}",
        "subject": [
            "{data.ref}",
            "{data.number}",
            "{data.issue.number}",
            "{data.workflow_run.id}",
            "{data.release.id}",
            "{data.deployment.id}",
            "{data.check_run.id}",
            "{data.check_suite.id}",
        ],
        "json_field": "payload",
        "ignore": ["com.github.ping"],
        "verify": "github",
    },
    "gitlab": {
        "type": [
            "com.gitlab.{data.object_kind}.{data.object_attributes.action}",
            "com.gitlab.{data.object_kind}.{data.object_attributes.status}",
            "com.gitlab.{data.object_kind}",
            "com.gitlab.{data.event_name}",
        ],
        "source": [
            "{data.project.web_url}",
            "{data.repository.homepage}",
            "{header.x-gitlab-instance}",
            "/webhooks/{name}",
        ],
        "id": ["{header.idempotency-key}", "sha256"],
        "subject": ["{data.object_attributes.iid}", "{data.ref}", "{data.object_attributes.id}"],
        "verify": "gitlab",
    },
    "slack": {
        "type": ["com.slack.{data.event.type}", "com.slack.{data.type}", "com.slack.slash_command"],
        "source": ["/slack/{data.team_id}", "/slack/{data.team.id}", "/slack"],
        "id": ["{data.event_id}", "{data.trigger_id}", "sha256"],
        "subject": [
            "{data.event.channel}",
            "{data.event.channel.id}",
            "{data.channel_id}",
            "{data.channel.id}",
            "{data.event.user}",
            "{data.user.id}",
        ],
        "time": "{data.event_time}",
        "json_field": "payload",
        "verify": "slack",
    },
    "stripe": {
        "type": "com.stripe.{data.type}",
        "source": ["/stripe/{data.account}", "/stripe/{data.context}", "/stripe"],
        "id": "{data.id}",
        "subject": ["{data.data.object.id}", "{data.related_object.id}"],
        "time": "{data.created}",
        "verify": "stripe",
    },
    "standard": {
        "type": "{data.type}",
        "id": "{header.webhook-id}",
        "time": "{data.timestamp}",
        "verify": "standard",
    },
    "svix": {
        "type": "{data.type}",
        "id": "{header.svix-id}",
        "time": "{data.timestamp}",
        "verify": "svix",
    },
}
