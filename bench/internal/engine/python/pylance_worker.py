"""pylance as a contender."""

import sys

import lance
import pyarrow
from worker import Worker, nearest


class Pylance:
    name = "pylance"

    def versions(self):
        return {"pylance": lance.__version__, "pyarrow": pyarrow.__version__, "python": sys.version.split()[0]}

    def open(self, uri, storage_options, version):
        return lance.dataset(uri, version=version, storage_options=storage_options)

    def version(self, dataset):
        return dataset.version

    def close(self, dataset):
        pass

    def call(self, dataset, search, vector):
        return dataset.scanner(
            nearest=nearest(search, vector),
            columns=[*search.get("columns", ()), "_distance"],
            filter=search.get("filter"),
            prefilter=True,
            with_row_id=True,
        ).to_table()

    def counters(self, dataset):
        stats = dataset.io_stats_incremental()
        return {"bytes_read": stats.read_bytes, "requests": stats.read_iops}

    def stop(self):
        pass


Worker(Pylance()).serve()
