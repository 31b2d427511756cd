"""lance-ray's vector_search as a contender, with a warm pool of workers."""

import os
import sys
import tempfile

import lance
import lance_ray
import ray
from worker import Worker, nearest


class LanceRay:
    name = "lance-ray"

    def __init__(self, workers):
        self.workers = workers
        # Short, since Ray puts unix sockets below it.
        self.folder = tempfile.TemporaryDirectory(prefix="lkray", dir="/tmp", ignore_cleanup_errors=True)
        ray.init(
            num_cpus=workers,
            include_dashboard=False,
            _temp_dir=self.folder.name,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
        )
        self.pool = lance_ray.init_global_pool(workers)

    def versions(self):
        return {
            "lance-ray": lance_ray.__version__,
            "ray": ray.__version__,
            "pylance": lance.__version__,
            "python": sys.version.split()[0],
        }

    def open(self, uri, storage_options, version):
        return lance.dataset(uri, version=version, storage_options=storage_options)

    def version(self, dataset):
        return dataset.version

    def close(self, dataset):
        pass

    def call(self, dataset, search, vector):
        return lance_ray.vector_search(
            dataset,
            nearest=nearest(search, vector),
            columns=[*search.get("columns", ()), "_distance"],
            filter=search.get("filter"),
            num_workers=self.workers,
            scanner_options={"with_row_id": True, "prefilter": True},
        )

    def counters(self, dataset):
        # The reads happen in Ray's workers, where this process cannot count them.
        return {}

    def stop(self):
        lance_ray.clear_global_pool(close=True)
        ray.shutdown()
        self.folder.cleanup()


Worker(LanceRay(int(os.environ["LANCEKNN_BENCH_RAY_WORKERS"]))).serve()
