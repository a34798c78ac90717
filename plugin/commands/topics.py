"""`airflow interlock topics`: creates and checks topics, lists other topics, resumes stopped partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import action, answering_bus, bus_of, confirmed, counted, or_exit, print_whole, say, show

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow.cli.cli_config import GroupCommand

    from ...engine.admin.resuming import Resumption
    from ...engine.config import BusConfig


def command() -> GroupCommand:
    from airflow.cli.cli_config import ARG_YES, Arg, GroupCommand

    from ...engine.config import DEFAULT_PARTITIONS

    names = Arg(("names",), metavar="NAME", nargs="+", help="name of a topic")
    return GroupCommand(
        name="topics",
        help="Topics of a bus, and other topics that it reads",
        subcommands=(
            action(
                "create",
                "Create the topics that are missing",
                create,
                Arg(("--partitions",), type=int, help=f"partitions of each topic ({DEFAULT_PARTITIONS})"),
                Arg(
                    ("--replication-factor",),
                    type=int,
                    default=-1,
                    help="replicas of each partition; -1 uses the broker's default",
                ),
                Arg(
                    ("--dry-run",),
                    action="store_true",
                    help="print topics with their settings, and the ACLs of each role; create nothing",
                ),
            ),
            action(
                "check", "Show the topics, and report those that are missing or have wrong settings", check
            ),
            action(
                "add",
                "Add other topics to those that the bus reads",
                add,
                names,
                Arg(
                    ("--cloudevents",),
                    action="store_true",
                    help="their owners say that they hold CloudEvents; without it their records are plain",
                ),
            ),
            action("remove", "Remove other topics from those that the bus reads", remove, names),
            action(
                "resume",
                "Resume stopped partitions",
                resume,
                Arg(
                    ("topic",),
                    metavar="TOPIC",
                    nargs="?",
                    help="a topic that the bus reads, or its trigger topic",
                ),
                Arg(("partition",), metavar="PARTITION", nargs="?", type=int, help="number of the partition"),
                Arg(("--all",), action="store_true", help="all stopped partitions"),
                Arg(("--topic",), dest="of_topic", metavar="NAME", help="stopped partitions of this topic"),
                Arg(
                    ("--from",),
                    dest="start",
                    required=True,
                    metavar="start|end|OFFSET",
                    help="continue at the first record, after the last record, or at an offset",
                ),
                ARG_YES,
            ),
        ),
    )


@or_exit("topics create")
def create(args: Namespace) -> None:
    """Creates missing topics and shows all; exits with 1 and the reason if the cluster refuses."""
    from ...engine.config import DEFAULT_PARTITIONS
    from ...engine.errors import TopicsError
    from ...engine.kafka import topics

    config = bus_of(args)  # topics.create() checks the arguments first, then whether the cluster answers
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
        [_row(name, count, "created" if name in created else "exists") for name, count in counts.items()],
    )
    others = {n for name, n in counts.items() if name != config.topic("subscription")} - {args.partitions}
    if args.partitions is not None and others:
        problem = (
            f"Existing topics have {', '.join(map(str, sorted(others)))} partitions, not "
            f"{args.partitions}: the number of partitions of a bus cannot be changed."
        )
        raise TopicsError(problem)


def _show_plan(args: Namespace, config: BusConfig) -> None:
    """Shows the topics that `create` would create, and the ACLs that each role needs."""
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
        settings = " ".join(f"{key}={value}" for key, value in sorted(s.settings.items()))
        rows.append({"topic": s.name, "partitions": s.partitions, "settings": settings})
    show(args, rows)
    show(args, [{**acl, "operations": ", ".join(acl["operations"])} for acl in acls])
    say(
        "Roles: emit is for tasks and jobs that emit; wait for workers whose tasks wait or dispatch; engine "
        "for triggerers and 'airflow interlock engine'; deliver for triggerers of an installation with sinks "
        f"and 'airflow interlock deliver'. On each topic that {config.command('topics add')} adds, wait, "
        "engine and deliver need Read and Describe, and engine needs DescribeConfigs. Nothing was created."
    )


@or_exit("topics check")
def check(args: Namespace) -> None:
    """Shows the topics; exits with 1 and a sentence for each problem."""
    from ...engine.admin.listed_topics import sources
    from ...engine.errors import TopicsError
    from ...engine.kafka import topics

    config = answering_bus(args)
    own = [_row(name, count, "ok") for name, count in topics.check(config).items()]
    listed = [source for source in sources(config) if source.listed]
    show(
        args,
        own
        + [
            _row(s.topic, s.partitions, "missing" if s.partitions is None else f"ok, listed: {s.reads}")
            for s in listed
        ],
    )
    missing = [s.topic for s in listed if s.partitions is None]
    if missing:
        raise TopicsError(
            *(f"The listed topic {name!r} does not exist." for name in missing),
            f"Create it again, or run: airflow interlock topics remove {' '.join(missing)}",
        )


@or_exit("topics add")
def add(args: Namespace) -> None:
    """Adds topics to the list, and shows all topics that the bus reads."""
    from ...engine.admin.listed_topics import add_topics

    config = answering_bus(args)
    added = add_topics(config, args.names, args.cloudevents)
    _show_sources(args, config)
    for note in added.notes:
        say(note)
    known = [name for name in dict.fromkeys(args.names) if name not in (*added.new, *added.declared)]
    if known:
        say(f"Already listed: {', '.join(known)}.")
    if added.declared:
        say(f"Read as CloudEvents from now on: {', '.join(added.declared)}.")
    if added.new:
        say("Engines read new topics from their current end. Scans find earlier events that a wait needs.")


@or_exit("topics remove")
def remove(args: Namespace) -> None:
    """Removes topics from the list, and shows the topics that the bus still reads."""
    from ...engine.admin.listed_topics import remove_topics

    config = answering_bus(args)
    remove_topics(config, args.names)
    _show_sources(args, config)
    say("Waits get no more events from the removed topics.")


@or_exit("topics resume")
def resume(args: Namespace) -> None:
    """Resumes stopped partitions at an offset, and prints which records are skipped or read again."""
    from ...engine.admin import resuming

    one, several = args.partition is not None, args.all or args.of_topic is not None
    if one == several or (args.topic is not None) != one:
        raise SystemExit(
            "airflow interlock topics resume: give TOPIC and PARTITION, or --all, or --topic NAME."
        )
    config = answering_bus(args)
    if one:
        found = [resuming.resumption(config, args.topic, args.partition, args.start)]
    else:
        found = resuming.resumptions(config, args.start, args.of_topic)
    for each in found:
        say(f"{each.partition} stopped: {each.reason} {each.consequence}")
    if not found:
        say("No partition is stopped: nothing to resume.")
    elif not confirmed(
        args,
        f"Resume at offset {found[0].offset}?" if one else f"Resume {counted(len(found), 'partition')}?",
    ):
        raise SystemExit("Nothing was changed.")
    else:
        resuming.write(config, found)
    show(args, [_resumed(each) for each in found])


def _resumed(found: Resumption) -> dict[str, Any]:
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "committed": found.committed,
        "start": found.low,
        "end": found.high,
        "continues_at": found.offset,
    }


def _show_sources(args: Namespace, config: BusConfig) -> None:
    from ...engine.admin.listed_topics import sources

    show(
        args,
        [
            {**_row(s.topic, s.partitions, "missing" if s.partitions is None else "ok"), "reads": s.reads}
            for s in sources(config)
        ],
    )


def _row(name: str, partitions: int | None, state: str) -> dict[str, Any]:
    return {"topic": name, "partitions": partitions, "state": state}
