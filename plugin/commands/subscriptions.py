"""`airflow interlock subscriptions`: what is registered on a bus, by whom, and taking one away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import answering_bus, bus_arguments, confirmed, counted, moment, or_exit, print_whole, say, show

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow.cli.cli_config import Arg, GroupCommand

    from ...engine.admin.pending import Pending
    from ...engine.admin.subscriptions import Holder, Subscriptions
    from ...engine.registry.registry import Registered


def command() -> GroupCommand:
    from airflow.cli.cli_config import ARG_YES, ActionCommand, GroupCommand, lazy_load_command
    from airflow.cli.cli_config import Arg as Argument

    bus = bus_arguments()
    path = "interlock.plugin.commands.subscriptions."
    return GroupCommand(
        name="subscriptions",
        help="What waits are registered on a bus",
        subcommands=(
            ActionCommand(
                name="list",
                help="List what is registered, the newest first",
                func=lazy_load_command(f"{path}list_"),
                args=(
                    Argument(("--name",), metavar="TEXT", help="a text that the name holds"),
                    Argument(("--kind",), choices=("one-shot", "durable"), help="waits, or durable ones"),
                    Argument(
                        ("--pending",),
                        action="store_true",
                        help="also what each has pending; reads the states",
                    ),
                    Argument(("--limit",), type=int, default=100, help="at most so many (100)"),
                    *bus,
                ),
            ),
            ActionCommand(
                name="show",
                help="Show all that is known of one",
                func=lazy_load_command(f"{path}show_one"),
                args=(name_argument(), *bus),
            ),
            ActionCommand(
                name="skip",
                help="Throw a firing of a dispatcher away",
                description=(
                    "Marks an open firing of a durable subscription as taken: no run is created for it. For "
                    "those that a dispatcher holds because no run can be made of them; the log of its task "
                    "names them."
                ),
                func=lazy_load_command(f"{path}skip"),
                args=(
                    name_argument(),
                    Argument(("firing",), metavar="FIRING_ID", help="id of the firing"),
                    ARG_YES,
                    *bus,
                ),
            ),
            ActionCommand(
                name="cancel",
                help="Remove a registration: it fires no more",
                description=(
                    "Removes the registration; what it has pending is dropped. A wait that a process holds "
                    "is refused: that process would register it again, so end its task in Airflow."
                ),
                func=lazy_load_command(f"{path}cancel"),
                args=(
                    name_argument(),
                    Argument(("--force",), action="store_true", help="also a wait that may be held"),
                    ARG_YES,
                    *bus,
                ),
            ),
        ),
    )


_AGAIN = (
    "A DAG that dispatches for it registers it again when it runs, and events count from then on: remove or "
    "pause it as well."
)


def name_argument() -> Arg:
    """Which subscription."""
    from airflow.cli.cli_config import Arg

    return Arg(("subscription",), metavar="SUBSCRIPTION", help="its name, or a text that no other name holds")


def list_(args: Namespace) -> None:
    """Show what the filters leave."""
    from ...engine.admin.pending import pending_of
    from ...engine.admin.subscriptions import Subscriptions

    def work() -> None:
        if args.limit < 1:
            raise SystemExit("--limit: give 1 or more.")
        config = answering_bus(args)
        subscriptions = Subscriptions.read(config)
        found = [
            each
            for each in reversed(subscriptions.all())
            if (args.name or "") in each.registration.subscription
            and args.kind in (None, each.registration.kind)
        ]
        chosen = found[: args.limit]
        pending = pending_of(config, chosen, subscriptions.partitions) if args.pending else {}
        show(args, [_row(each, subscriptions, pending.get(each.incarnation)) for each in chosen])
        if len(found) > len(chosen):
            say(f"Not shown: {len(found) - len(chosen)} more. --limit shows more, --name fewer.")

    or_exit("subscriptions list", work)


def show_one(args: Namespace) -> None:
    """Show registration, condition, holders and what is pending."""
    from ...engine.admin.explaining import MOST_KEYS, open_keys
    from ...engine.admin.pending import pending_of
    from ...engine.admin.subscriptions import Subscriptions

    def work() -> None:
        config = answering_bus(args)
        subscriptions = Subscriptions.read(config)
        registered = subscriptions.find(args.subscription)
        [pending] = pending_of(config, [registered], subscriptions.partitions).values()
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
        if args.output in ("json", "yaml"):
            print_whole(args.output, whole)
            return
        told = {name: value for name, value in whole.items() if not isinstance(value, list)}
        told["labels"] = ", ".join(whole["labels"])
        told |= {f"holder {n}": _told(each) for n, each in enumerate(whole["holders"], 1)}
        show(args, [{"field": name, "value": value} for name, value in told.items()])
        if keys:
            show(args, [{**each, "missing": ", ".join(each["missing"])} for each in whole["open_keys"]])
        if len(pending.keys) > MOST_KEYS:
            say(f"Not shown: {counted(len(pending.keys) - MOST_KEYS, 'more open key')}.")
        say(f"Why it has not fired: {config.command(f'explain {registration.subscription}')}")

    or_exit("subscriptions show", work)


def cancel(args: Namespace) -> None:
    """Remove a registration, after a look at who waits for it."""
    from ...engine.admin.subscriptions import Subscriptions

    def work() -> None:
        subscriptions = Subscriptions.read(answering_bus(args))
        registered = subscriptions.find(args.subscription)
        name = registered.registration.subscription
        if not args.force and (refusal := subscriptions.refusal(registered)):
            raise SystemExit(refusal)
        again = "" if registered.one_shot else f" {_AGAIN}"
        if not confirmed(args, f"Cancel {name!r}? What it has pending is dropped.{again}"):
            raise SystemExit("Nothing was changed.")
        subscriptions.cancel(registered)
        show(args, [{"subscription": name, "incarnation": registered.incarnation, "state": "cancelled"}])
        if not registered.one_shot:
            say(_AGAIN)

    or_exit("subscriptions cancel", work)


def skip(args: Namespace) -> None:
    """Acknowledge an open firing that nobody handed on."""
    from ...engine.admin.skipping import open_firing
    from ...engine.waiting.acknowledge import acknowledge_all

    def work() -> None:
        config = answering_bus(args)
        action = open_firing(config, args.subscription, args.firing)
        firing = action.firing
        key = "" if firing.key is None else f", key {firing.key!r}"
        told = f"firing {firing.id} of {action.subscription!r} ({firing.outcome} at {firing.fired_at}{key})"
        if not confirmed(args, f"Throw {told} away? It gets no run, and cannot be brought back."):
            raise SystemExit("Nothing was changed.")
        acknowledge_all(config, [action])
        row = {"subscription": action.subscription, "firing": firing.id, "key": firing.key}
        show(args, [{**row, "fired_at": firing.fired_at, "state": "skipped"}])
        say(
            "Where the dispatcher's task was given it before, and can make a run of it by now, it still does."
        )

    or_exit("subscriptions skip", work)


def _row(registered: Registered, subscriptions: Subscriptions, pending: Pending | None) -> dict[str, Any]:
    from ...engine.admin.pending import missing

    registration = registered.registration
    holders = subscriptions.held_by(registered)
    row = {
        "subscription": registration.subscription,
        "kind": registration.kind,
        "key": registration.key or "",
        "since": moment(registration.since_ms),
        "registered": moment(registered.timestamp_ms),
        "waited_for_by": ", ".join(_where(holder) for holder in holders),
    }
    if pending is not None:
        idle = f", kept for repeats: {len(pending.idle)}" if pending.idle else ""
        row["pending"] = "fired" if pending.closed else f"open keys: {len(pending.keys)}{idle}"
        if not pending.closed and len(pending.keys) + len(pending.idle) <= 1:
            state = pending.state(registered, next(iter(pending.keys), registration.key or ""))
            row["pending"] = f"missing {', '.join(missing(registered, state))}"
    return row


def _where(holder: Holder) -> str:
    return f"{holder.process}@{holder.host}" if holder.host else holder.process


def _holder(holder: Holder) -> dict[str, str]:
    return {
        "process": holder.process,
        "host": holder.host,
        "deployment": holder.deployment,
        "said": moment(holder.said_ms),
    }


def _told(holder: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in holder.items() if value)
