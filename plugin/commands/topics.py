"""`airflow interlock topics`: the topics of a bus, what it reads beside them, and where partitions go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import answering_bus, bus_arguments, bus_of, confirmed, counted, or_exit, print_whole, say, show

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow.cli.cli_config import GroupCommand

    from ...engine.admin.resuming import Resumption
    from ...engine.config import BusConfig


def command() -> GroupCommand:
    from airflow.cli.cli_config import ARG_YES, ActionCommand, Arg, GroupCommand, lazy_load_command

    from ...engine.config import DEFAULT_PARTITIONS

    bus = bus_arguments()
    names = Arg(("names",), metavar="NAME", nargs="+", help="name of a topic")

    def action(name: str, help_text: str, *args: Arg, description: str | None = None) -> ActionCommand:
        func = lazy_load_command(f"interlock.plugin.commands.topics.{name}")
        return ActionCommand(
            name=name, help=help_text, description=description, func=func, args=(*args, *bus)
        )

    return GroupCommand(
        name="topics",
        help="The topics of a bus, and those that it reads",
        subcommands=(
            action(
                "create",
                "Create the topics that are missing",
                Arg(("--partitions",), type=int, help=f"partitions of each topic ({DEFAULT_PARTITIONS})"),
                Arg(
                    ("--replication-factor",),
                    type=int,
                    default=-1,
                    help="replicas of each partition; -1 takes the broker's default",
                ),
                Arg(
                    ("--dry-run",),
                    action="store_true",
                    help="print topics with their settings, and the ACLs that each role needs; make nothing",
                ),
            ),
            action("check", "Tell which topics are missing or made differently, and what the bus reads"),
            action("add", "Read other topics as well", names),
            action("remove", "Read these other topics no more", names),
            action(
                "resume",
                "Let partitions that stopped go on",
                Arg(
                    ("topic",),
                    metavar="TOPIC",
                    nargs="?",
                    help="a topic that the bus reads, or its trigger topic",
                ),
                Arg(("partition",), metavar="PARTITION", nargs="?", type=int, help="number of the partition"),
                Arg(("--all",), action="store_true", help="all partitions that stopped"),
                Arg(("--topic",), dest="of_topic", metavar="NAME", help="all of this topic that stopped"),
                Arg(
                    ("--from",),
                    dest="start",
                    required=True,
                    metavar="start|end|OFFSET",
                    help="the first record there is, the next one to come, or an offset",
                ),
                ARG_YES,
            ),
        ),
    )


def create(args: Namespace) -> None:
    """Create what is missing and show all; exit 1 with the reason when the cluster refuses."""
    from ...engine.config import DEFAULT_PARTITIONS
    from ...engine.errors import TopicsError
    from ...engine.kafka import topics

    def work() -> None:
        config = bus_of(args)  # `create` asks whether the cluster answers, after a look at the numbers
        if args.dry_run:
            _show_plan(args, config)
            return
        created, _ = topics.create(
            config,
            partitions=DEFAULT_PARTITIONS if args.partitions is None else args.partitions,
            replication_factor=args.replication_factor,
        )
        counts = topics.check(config)
        show(
            args,
            [
                _row(name, count, "created" if name in created else "was there")
                for name, count in counts.items()
            ],
        )
        others = {n for name, n in counts.items() if name != config.topic("subscription")} - {args.partitions}
        if args.partitions is not None and others:
            problem = (
                f"Partitions of topics that were there: {', '.join(map(str, sorted(others)))}, not "
                f"{args.partitions}: a bus keeps the number it was made with."
            )
            raise TopicsError((problem,))

    or_exit("topics create", work)


def _show_plan(args: Namespace, config: BusConfig) -> None:
    """What `create` would make, and the rights that emitters, waits and engines need on it."""
    from ...engine.admin.access import needed
    from ...engine.config import DEFAULT_PARTITIONS
    from ...engine.kafka.topics import specs

    specified = specs(config, DEFAULT_PARTITIONS if args.partitions is None else args.partitions)
    acls = [acl._asdict() for acl in needed(config)]
    if args.output in ("json", "yaml"):
        topics = [
            {"topic": s.name, "partitions": s.partitions, "settings": dict(sorted(s.settings.items()))}
            for s in specified
        ]
        acls = [{**acl, "operations": list(acl["operations"])} for acl in acls]
        print_whole(args.output, {"topics": topics, "acls": acls})
        return
    rows = []
    for s in specified:
        told = " ".join(f"{key}={value}" for key, value in sorted(s.settings.items()))
        rows.append({"topic": s.name, "partitions": s.partitions, "settings": told})
    show(args, rows)
    show(args, [{**acl, "operations": ", ".join(acl["operations"])} for acl in acls])
    say(
        "emit: tasks and jobs that emit; wait: workers that run tasks which wait or dispatch; engine: "
        f"triggerers, and 'airflow interlock engine'. Each topic that {config.command('topics add')} lists "
        "is Read and Described by wait and engine, and engine reads its settings (DescribeConfigs). Nothing "
        "was made."
    )


def check(args: Namespace) -> None:
    """Show the topics when all is well; else exit 1 with a sentence for each that is not."""
    from ...engine.admin.administration import sources
    from ...engine.errors import TopicsError
    from ...engine.kafka import topics

    def work() -> None:
        config = answering_bus(args)
        own = [_row(name, count, "ok") for name, count in topics.check(config).items()]
        listed = [source for source in sources(config) if source.listed]
        show(
            args,
            own
            + [
                _row(s.topic, s.partitions, "missing" if s.partitions is None else "ok, listed")
                for s in listed
            ],
        )
        missing = [s.topic for s in listed if s.partitions is None]
        if missing:
            raise TopicsError(
                (
                    *(f"Topic {name!r}, which the bus lists, is not there." for name in missing),
                    f"Make it again, or say: airflow interlock topics remove {' '.join(missing)}",
                )
            )

    or_exit("topics check", work)


def add(args: Namespace) -> None:
    """List topics as sources, and show all that the bus reads."""
    from ...engine.admin.administration import add_topics

    def work() -> None:
        config = answering_bus(args)
        new = add_topics(config, args.names)
        _show_sources(args, config)
        known = [name for name in dict.fromkeys(args.names) if name not in new]
        if known:
            say(f"Listed before: {', '.join(known)}.")
        if new:
            say(
                "The engines read them from their present end; what a wait counts from before, a scan brings."
            )

    or_exit("topics add", work)


def remove(args: Namespace) -> None:
    """Take topics out of the list, and show what the bus still reads."""
    from ...engine.admin.administration import remove_topics

    def work() -> None:
        config = answering_bus(args)
        remove_topics(config, args.names)
        _show_sources(args, config)
        say("Waits that need events of them do not get them any more.")

    or_exit("topics remove", work)


def resume(args: Namespace) -> None:
    """Say where partitions that stopped go on, and what that means for their records."""
    from ...engine.admin import resuming

    one, several = args.partition is not None, args.all or args.of_topic is not None
    if one == several or (args.topic is not None) != one:
        raise SystemExit(
            "airflow interlock topics resume: give TOPIC and PARTITION, or --all, or --topic NAME."
        )

    def work() -> None:
        config = answering_bus(args)
        if one:
            found = [resuming.resumption(config, args.topic, args.partition, args.start)]
        else:
            found = resuming.resumptions(config, args.start, args.of_topic)
        for each in found:
            say(f"{each.partition} stopped: {each.reason} {each.consequence}")
        if not found:
            say("No partition has stopped: there is nothing to resume.")
        elif not confirmed(
            args,
            f"Go on at offset {found[0].offset}?"
            if one
            else f"Let {counted(len(found), 'partition')} go on?",
        ):
            raise SystemExit("Nothing was changed.")
        else:
            resuming.write(config, found)
        show(args, [_resumed(each) for each in found])

    or_exit("topics resume", work)


def _resumed(found: Resumption) -> dict[str, Any]:
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "committed": found.committed,
        "start": found.low,
        "end": found.high,
        "goes_on_at": found.offset,
    }


def _show_sources(args: Namespace, config: BusConfig) -> None:
    from ...engine.admin.administration import sources

    show(
        args,
        [_row(s.topic, s.partitions, "missing" if s.partitions is None else "ok") for s in sources(config)],
    )


def _row(name: str, partitions: int | None, state: str) -> dict[str, Any]:
    return {"topic": name, "partitions": partitions, "state": state}
