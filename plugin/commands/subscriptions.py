"""`airflow interlock subscriptions`: lists, shows and cancels registrations, and skips firings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import (
    action,
    answering_bus,
    confirmed,
    counted,
    moment,
    or_exit,
    print_whole,
    printable,
    progress,
    say,
    show,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow.cli.cli_config import Arg, GroupCommand

    from ...engine.following.states import Pending
    from ...engine.following.subscriptions import Subscriptions
    from ...engine.registry.lazy import Listed
    from ...engine.registry.leases import LeaseHolder
    from ...engine.registry.registry import Registered


_REGISTERED_AGAIN = (
    "The next run of its DAG registers it again, and events count from then on: remove or pause that DAG as "
    "well."
)
_FIRINGS_OF_SINK = "Its open firings are not delivered any more: they become dead letters after a day."
# Columns about the open firings of a sink.
_UNDELIVERED = ("open_firings", "oldest_firing", "oldest_since", "oldest_age_s")


def command() -> GroupCommand:
    from airflow.cli.cli_config import ARG_YES, Arg, GroupCommand

    return GroupCommand(
        name="subscriptions",
        help="Subscriptions that are registered on a bus",
        subcommands=(
            action(
                "list",
                "List registered subscriptions, the newest first",
                list_,
                Arg(("--name",), metavar="TEXT", help="only those whose name contains TEXT"),
                Arg(
                    ("--kind",),
                    choices=("one-shot", "durable"),
                    help="only one-shot (waiting tasks) or durable ones (dispatchers, sinks, asset watchers)",
                ),
                Arg(
                    ("--pending",),
                    action="store_true",
                    help="also read and show what each has pending, and the firings that wait for its sink",
                ),
                Arg(("--limit",), type=int, default=100, help="show at most this many (100)"),
            ),
            action("show", "Show one subscription in full", show_one, name_argument()),
            action(
                "skip",
                "Discard a firing of a dispatcher or a sink",
                skip,
                name_argument(),
                Arg(("firing",), metavar="FIRING_ID", help="id of the firing"),
                ARG_YES,
                description=(
                    "Acknowledges an open firing of a durable subscription, so that no run is created for "
                    "it, or it is not delivered. Use it for a firing that a dispatcher holds because its run "
                    "cannot be created (the log of the dispatcher's task names it), or that a sink fails to "
                    "take (`show` names the oldest; the log of the process that delivers says why)."
                ),
            ),
            action(
                "cancel",
                "Remove a registration, so that it cannot fire",
                cancel,
                name_argument(),
                Arg(("--force",), action="store_true", help="also cancel a wait that a process may hold"),
                Arg(
                    ("--with-sink",),
                    action="store_true",
                    help="also remove its sink: firings that are still open become dead letters after a day",
                ),
                ARG_YES,
                description=(
                    "Removes the registration and drops what it has pending. Refuses a wait that a process "
                    "holds: that process would register it again. End its task in Airflow instead."
                ),
            ),
        ),
    )


def name_argument() -> Arg:
    """Returns the argument SUBSCRIPTION."""
    from airflow.cli.cli_config import Arg

    return Arg(
        ("subscription",), metavar="SUBSCRIPTION", help="its name, or a part that no other name contains"
    )


@or_exit("subscriptions list")
def list_(args: Namespace) -> None:
    """Shows the subscriptions that match the filters."""
    from ...engine.following.kafka_view import KafkaView

    if args.limit < 1:
        raise SystemExit("--limit: give 1 or more.")
    view = KafkaView.read(answering_bus(args), about=args.name)
    subscriptions = view.subscriptions
    found = subscriptions.listed()[::-1]
    if args.name:
        found = [each for each in found if args.name in each.subscription]
    if args.kind:
        found = [each for each in found if each.one_shot == (args.kind == "one-shot")]
    chosen, left = _first(found, subscriptions, args.limit)
    pending = view.pending_of(chosen) if args.pending else {}
    rows = [_row(each, subscriptions, pending.get(each.incarnation)) for each in chosen]
    if args.pending:
        waiting = _undelivered(subscriptions)
        for row in rows:
            row |= waiting.get(row["subscription"], dict.fromkeys(_UNDELIVERED))
    if args.output in ("table", "plain") and not any(row["delivers_to"] for row in rows):
        left_out = ("delivers_to", *_UNDELIVERED)
        rows = [{name: value for name, value in row.items() if name not in left_out} for row in rows]
    show(args, rows)
    if left:
        say(f"Not shown: {left} more. Raise --limit, or filter with --name.")
    if alone := subscriptions.sinks_alone(args.name or ""):
        say(f"Sinks without a subscription, kept for open firings: {', '.join(alone)}.")


def _first(found: list[Listed], subscriptions: Subscriptions, limit: int) -> tuple[list[Registered], int]:
    """Returns the first `limit` of them in full, and how many are left."""
    chosen: list[Registered] = []
    for number, listed in enumerate(found):
        if len(chosen) == limit:
            return chosen, len(found) - number
        registered = subscriptions.registered(listed)
        if registered is not None:
            chosen.append(registered)
    return chosen, 0


@or_exit("subscriptions show")
def show_one(args: Namespace) -> None:
    """Shows registration, condition, holders and what is pending."""
    from msgspec import to_builtins

    from ...engine.admin.explaining import MOST_KEYS, open_keys
    from ...engine.admin.sinks import sink_of
    from ...engine.delivery.shown_path import shown_path
    from ...engine.following.kafka_view import KafkaView

    config = answering_bus(args)
    view = KafkaView.read(config, about=args.subscription)
    subscriptions = view.subscriptions
    registered = subscriptions.find(args.subscription)
    [pending] = view.pending_of([registered]).values()
    keys = open_keys(registered, pending)
    registration = registered.registration
    whole: dict[str, Any] = {
        **_row(registered, subscriptions, pending),
        "incarnation": registered.incarnation,
        "condition": str(registered.condition),
        "labels": list(registered.condition.labels),
        "holders": [_holder(holder) for holder in subscriptions.held_by(registered)],
        "open_keys": [
            {"key": each.key, "events": each.events, "missing": list(each.missing)} for each in keys
        ],
    }
    if not registered.one_shot:
        whole["max_keys"], whole["at_limit"] = registration.max_keys, registration.at_limit
    if (sink := sink_of(subscriptions, registration.subscription)) is not None:
        whole["sink"] = {**to_builtins(sink), "path": shown_path(sink.path)}
        with progress("Reading firings"):
            waiting = _undelivered(subscriptions, registration.subscription)
        whole |= waiting.get(registration.subscription, dict.fromkeys(_UNDELIVERED))
    if args.output in ("json", "yaml"):
        print_whole(args.output, whole)
        return
    fields = {name: value for name, value in whole.items() if not isinstance(value, (list, dict))}
    for name, value in whole.get("sink", {}).items():
        fields |= {f"sink {name}": value} if name != "retry" else {f"retry {n}": v for n, v in value.items()}
    fields["labels"] = ", ".join(whole["labels"])
    fields |= {f"holder {n}": _holder_text(each) for n, each in enumerate(whole["holders"], 1)}
    show(args, [{"field": name, "value": value} for name, value in fields.items()])
    if keys:
        show(args, [{**each, "missing": ", ".join(each["missing"])} for each in whole["open_keys"]])
    if len(pending.keys) > MOST_KEYS:
        say(f"Not shown: {counted(len(pending.keys) - MOST_KEYS, 'more open key')}.")
    say(f"Why it has not fired: {config.command(f'explain {registration.subscription}')}")


@or_exit("subscriptions cancel")
def cancel(args: Namespace) -> None:
    """Removes a registration, unless a process holds it, and its sink if that is asked for."""
    from ...engine.admin.sinks import remove_sink
    from ...engine.following.subscriptions import Subscriptions

    subscriptions = Subscriptions.read(answering_bus(args), about=args.subscription)
    name, sinks = args.subscription, subscriptions.sinks
    registered = None
    if args.with_sink and name in subscriptions.sinks_alone():
        question = f"Remove the sink of {name!r}? {_FIRINGS_OF_SINK}"
    else:
        registered = subscriptions.find(name)
        name = registered.registration.subscription
        if not args.force and (refusal := subscriptions.refusal(registered)):
            raise SystemExit(printable(refusal))
        firings = f" {_FIRINGS_OF_SINK}" if args.with_sink and name in sinks else ""
        again = "" if registered.one_shot else f" {_REGISTERED_AGAIN}"
        question = f"Cancel {name!r}? What it has pending is dropped.{firings}{again}"
    if not confirmed(args, question):
        raise SystemExit("Nothing was changed.")
    incarnation = ""
    if registered is not None:  # first: without its sink, it would fire for nobody
        subscriptions.cancel(registered)
        incarnation = registered.incarnation
    if args.with_sink and name in sinks:
        remove_sink(subscriptions.config, name)
    show(args, [{"subscription": name, "incarnation": incarnation, "state": "cancelled"}])
    if registered is not None and not registered.one_shot:
        say(_REGISTERED_AGAIN)
        if name in sinks and not args.with_sink:
            say("Its sink stays, so that open firings are delivered. --with-sink removes it too.")


@or_exit("subscriptions skip")
def skip(args: Namespace) -> None:
    """Acknowledges an open firing without a run or a delivery."""
    from ...engine.admin.sinks import is_delivered
    from ...engine.admin.skipping import open_firing
    from ...engine.waiting.acknowledge import acknowledge_all

    config = answering_bus(args)
    record = open_firing(config, args.subscription, args.firing)
    firing = record.firing
    key = "" if firing.key is None else f", key {firing.key!r}"
    text = f"firing {firing.id} of {record.subscription!r} ({firing.outcome} at {firing.fired_at}{key})"
    delivered = is_delivered(record.subscription)
    lost = "It is not delivered" if delivered else "It gets no run"
    if not confirmed(args, f"Discard {text}? {lost}, and this cannot be undone."):
        raise SystemExit("Nothing was changed.")
    acknowledge_all(config, [record])
    row = {"subscription": record.subscription, "firing": firing.id, "key": firing.key}
    show(args, [{**row, "fired_at": firing.fired_at, "state": "skipped"}])
    if delivered:
        say("A delivery that has begun may still reach the sink.")
    else:
        say("If a task of the dispatcher has already received it, that task may still create its run.")


def _undelivered(subscriptions: Subscriptions, name: str | None = None) -> dict[str, dict[str, Any]]:
    """Returns {subscription: {column: value}} with the columns _UNDELIVERED, for subscriptions with a sink.

    Leaves out those whose deployment has a consumer group that the cluster does not show. name: return this
    subscription only.
    """
    from ...engine.admin.deliveries import groups
    from ...engine.admin.undelivered import undelivered

    config = subscriptions.config
    found = groups(config, subscriptions, None if name is None else name.partition("/")[0])
    rows = [
        each.row(subscriptions, subscriptions.now_ms) for each in undelivered(config, subscriptions, found)
    ]
    return {row["subscription"]: {column: row[column] for column in _UNDELIVERED} for row in rows}


def _row(registered: Registered, subscriptions: Subscriptions, pending: Pending | None) -> dict[str, Any]:
    from ...engine.admin.sinks import destination

    registration = registered.registration
    holders = subscriptions.held_by(registered)
    row = {
        "subscription": registration.subscription,
        "kind": registration.kind,
        "key": registration.key or "",
        "since": moment(registration.since_ms),
        "registered": moment(registered.timestamp_ms),
        "waited_for_by": ", ".join(_where(holder) for holder in holders),
        "delivers_to": destination(subscriptions, registration.subscription) or None,
    }
    if pending is not None:
        row["pending"] = _pending_text(registered, pending)
    return row


def _pending_text(registered: Registered, pending: Pending) -> str:
    """What is missing if there is one key to say it of, and how many keys a durable subscription has.

    Without an open key, a durable subscription misses nothing: it fired, or no event has opened a key yet.
    """
    from ...conditions import ConditionError
    from ...engine.admin.pending import missing

    if pending.closed:
        return "fired"
    keys, idle = len(pending.keys), len(pending.idle)
    of_one = registered.one_shot and keys + idle <= 1
    text = ""
    if of_one or keys == 1:
        try:
            state = pending.state(registered, next(iter(pending.keys), registered.registration.key or ""))
        except ConditionError:  # one damaged record hides no other subscription
            return "its state record cannot be read"
        text = f"missing {', '.join(missing(registered, state))}"
    if of_one:
        return text
    kept = f", kept to recognise repeats: {idle}" if idle else ""
    return f"open keys: {keys}{f' ({text})' if text else ''}{kept}"


def _where(holder: LeaseHolder) -> str:
    return f"{holder.process}@{holder.host}" if holder.host else holder.process


def _holder(holder: LeaseHolder) -> dict[str, str]:
    return {
        "process": holder.process,
        "host": holder.host,
        "deployment": holder.deployment,
        "last_seen": moment(holder.renewed_ms),
    }


def _holder_text(holder: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in holder.items() if value)
