"""Files of any store as they are: listed, loaded, opened, without an index and without a conversion.

    files = forebay.list_files("s3://bucket/texts/", masks="*.txt")
    for url, data in forebay.load_files(files, shuffle=True):
        ...
    with forebay.open("gs://bucket/result.json", "wb") as file:
        file.write(b"{}")

`listing` has the lists, `loading` reads many files ahead of their consumer, `contents` their lines and the files of tars, `order`
divides the files among ranks and workers, `cache` keeps them on local disk, `opened` has file objects, `stores` the connections
of this process. A URL belongs to a store (`s3://`, `gs://`, `azure://`, `oci://`,
`hf://`, `dbfs:/Volumes`, `sftp://`), `https://` to read, or a path.
"""

from .contents import LineLoader, TarLoader, load_lines, load_tars
from .listing import File, FileList, list_files
from .loading import FileLoader, load_files
from .opened import FileReader, FileWriter, open
from .stores import StoreOptions, remove_files

__all__ = [
    "File",
    "FileList",
    "FileLoader",
    "FileReader",
    "FileWriter",
    "LineLoader",
    "StoreOptions",
    "TarLoader",
    "list_files",
    "load_files",
    "load_lines",
    "load_tars",
    "open",
    "remove_files",
]
