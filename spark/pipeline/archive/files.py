"""Files of an archive, on whatever file system its path names: what Hadoop's FileSystem offers, no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Files:
    """The files below one folder. Names are relative to it, with `/` between folders.

    Nothing here relies on a rename or on a listing that is one moment's: object stores have neither.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        """PipelineError where no file system answers to `root`."""
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise PipelineError(
                "the archive needs a session with a JVM of its own, and this one is a Spark Connect session: "
                "submit the job with spark-submit"
            )
        self._path = jvm.org.apache.hadoop.fs.Path
        try:
            path = self._path(root)
            self._fs = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
            self.root: str = self._fs.makeQualified(path).toString().rstrip("/")
        except Exception as error:
            raise PipelineError(
                f"{root!r} is no path of a file system that Spark knows: {_why(error)}"
            ) from error

    def folders(self, name: str = "") -> Mapping[str, int]:
        """The names of the folders in one, with the time of the last change in ms; empty without it."""
        return self._list(name, folders=True)

    def files(self, name: str = "") -> Mapping[str, int]:
        """The names of the files in a folder, with the time of the last change in ms; empty without it."""
        return self._list(name, folders=False)

    def changed_ms(self, name: str) -> int | None:
        """When a file was last written; None where there is none."""
        try:
            return int(self._fs.getFileStatus(self._at(name)).getModificationTime())
        except Exception as error:
            if _absent(error):
                return None
            raise

    def read(self, name: str) -> str | None:
        """The text of a small file; None where there is none."""
        try:
            stream = self._fs.open(self._at(name))
        except Exception as error:
            if _absent(error):
                return None
            raise
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a small file, in the place of one that is there."""
        stream = self._fs.create(self._at(name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all in it; nothing where there is none."""
        self._fs.delete(self._at(name), True)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def _at(self, name: str) -> Any:
        return self._path(self.path(name))

    def _list(self, name: str, *, folders: bool) -> dict[str, int]:
        try:
            found = self._fs.listStatus(self._at(name))
        except Exception as error:
            if _absent(error):
                return {}
            raise
        return {
            each.getPath().getName(): each.getModificationTime()
            for each in found
            if each.isDirectory() == folders
        }


def _absent(error: Exception) -> bool:
    return "java.io.FileNotFoundException" in str(error)


def _why(error: Exception) -> str:
    """The message of Java's exception, without its stack."""
    java = getattr(error, "java_exception", None)
    return str(error) if java is None else str(java.toString())
