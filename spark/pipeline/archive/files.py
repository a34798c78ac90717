"""Files of an archive, on any file system that Hadoop's FileSystem supports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from .. import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Files:
    """The files below one folder. Names are relative to it, with `/` between folders.

    Uses no rename and no atomic listing: object stores have neither.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        """Raises PipelineError if Spark knows no file system for `root`."""
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise PipelineError(
                "the archive needs a classic session, and this is a Spark Connect session: submit the job"
                " with spark-submit"
            )
        self._path = jvm.org.apache.hadoop.fs.Path
        try:
            path = self._path(root)
            self._fs = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
            self.root: str = self._fs.makeQualified(path).toString().rstrip("/")
        except Exception as error:
            raise PipelineError(
                f"{root!r} is not a path of a file system that Spark knows: {_why(error)}"
            ) from error

    def folders(self, name: str = "") -> Mapping[str, int]:
        """{name: last change in ms} of the folders in a folder; empty if it does not exist."""
        return self._list(name, folders=True)

    def files(self, name: str = "") -> Mapping[str, int]:
        """{name: last change in ms} of the files in a folder; empty if it does not exist."""
        return self._list(name, folders=False)

    def changed_ms(self, name: str) -> int | None:
        """When a file was last written; None if it does not exist."""
        found = _if_it_exists(lambda: self._fs.getFileStatus(self._at(name)))
        return None if found is None else int(found.getModificationTime())

    def read(self, name: str) -> str | None:
        """The text of a small file; None if it does not exist."""
        stream = _if_it_exists(lambda: self._fs.open(self._at(name)))
        if stream is None:
            return None
        with closing(stream):
            return bytes(stream.readAllBytes()).decode()

    def write(self, name: str, text: str) -> None:
        """Writes a small file, replacing an existing one."""
        with closing(self._fs.create(self._at(name), True)) as stream:
            stream.write(bytearray(text.encode()))

    def remove(self, name: str) -> None:
        """Removes a file, or a folder with its contents; does nothing if it does not exist."""
        self._fs.delete(self._at(name), True)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def _at(self, name: str) -> Any:
        return self._path(self.path(name))

    def _list(self, name: str, *, folders: bool) -> dict[str, int]:
        return {
            each.getPath().getName(): each.getModificationTime()
            for each in _if_it_exists(lambda: self._fs.listStatus(self._at(name))) or ()
            if each.isDirectory() == folders
        }


def _if_it_exists(ask: Callable[[], Any]) -> Any:
    """The answer about a file or folder; None if it does not exist."""
    try:
        return ask()
    except Exception as error:
        if "java.io.FileNotFoundException" in str(error):
            return None
        raise


def _why(error: Exception) -> str:
    """The message of Java's exception, without its stack trace."""
    java = getattr(error, "java_exception", None)
    return str(error) if java is None else str(java.toString())
