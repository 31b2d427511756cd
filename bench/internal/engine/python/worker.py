"""The half of a Python contender that every engine shares: the protocol, the clocks, the queries.

One JSON request per line on standard input, one JSON reply per line on the original standard output. Calls are timed here, inside the
process, so neither the pipe nor JSON is part of any duration.
"""

import json
import os
import resource
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np


def cpu_ns():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int((usage.ru_utime + usage.ru_stime) * 1e9)


class Worker:
    """Engines implement open, close, call(dataset, search, vectors), counters(dataset) and versions."""

    def __init__(self, engine):
        self.engine = engine
        self.datasets = {}
        self.queries = {}

    def hello(self, request):
        return {"engine": self.engine.name, "versions": self.engine.versions(), "pid": os.getpid()}

    def open(self, request):
        begin = time.perf_counter_ns()
        dataset = self.engine.open(request["uri"], request.get("storage_options"), request.get("version"))
        elapsed = time.perf_counter_ns() - begin
        self.datasets[request["handle"]] = dataset
        return {"durations_ns": [elapsed], "version": self.engine.version(dataset)}

    def close(self, request):
        self.engine.close(self.datasets.pop(request["handle"]))
        return {}

    def load(self, request):
        vectors = np.fromfile(request["path"], "f4").reshape(-1, request["dim"])
        self.queries[request["set"]] = vectors
        return {"queries": len(vectors)}

    def run(self, request):
        dataset = self.datasets[request["handle"]]
        search = request["search"]
        vectors = self.queries[request["set"]]
        numbers = request["queries"]
        mode = request["mode"]
        self.engine.counters(dataset)
        if mode == "matrix":
            reply = self.matrix(dataset, search, vectors[numbers], request["k"])
        elif mode == "throughput":
            reply = self.throughput(dataset, search, vectors, numbers, request["clients"])
        else:
            reply = self.single(dataset, search, vectors, numbers)
        reply.update(self.engine.counters(dataset))
        return reply

    def single(self, dataset, search, vectors, numbers):
        call, clock = self.engine.call, time.perf_counter_ns
        durations, tables, cpu = [], [], cpu_ns()
        for number in numbers:
            vector = vectors[number]
            begin = clock()
            table = call(dataset, search, vector)
            durations.append(clock() - begin)
            tables.append(table)
        cpu = cpu_ns() - cpu
        return {"durations_ns": durations, "wall_ns": sum(durations), "cpu_ns": cpu, "results": [rows(t) for t in tables]}

    def matrix(self, dataset, search, vectors, k):
        cpu, begin = cpu_ns(), time.perf_counter_ns()
        table = self.engine.call(dataset, search, vectors)
        elapsed, cpu = time.perf_counter_ns() - begin, cpu_ns() - cpu
        owner = table["query_index"].to_numpy()
        ids, distances = table["_rowid"].to_numpy(), table["_distance"].to_numpy()
        results = []
        for q in range(len(vectors)):
            mine = owner == q
            order = np.argsort(distances[mine], kind="stable")
            results.append(answer(ids[mine][order], distances[mine][order]))
        return {"durations_ns": [elapsed], "wall_ns": elapsed, "cpu_ns": cpu, "results": results}

    def throughput(self, dataset, search, vectors, numbers, clients):
        call, clock = self.engine.call, time.perf_counter_ns
        tables, durations = [None] * len(numbers), [0] * len(numbers)
        gate = threading.Barrier(clients + 1)

        def client(first):
            gate.wait()
            for i in range(first, len(numbers), clients):
                vector = vectors[numbers[i]]
                begin = clock()
                tables[i] = call(dataset, search, vector)
                durations[i] = clock() - begin

        with ThreadPoolExecutor(clients) as pool:
            running = [pool.submit(client, i) for i in range(clients)]
            cpu = cpu_ns()
            gate.wait()
            begin = clock()
            for future in running:
                future.result()
            wall, cpu = clock() - begin, cpu_ns() - cpu
        return {"durations_ns": durations, "wall_ns": wall, "cpu_ns": cpu, "results": [rows(t) for t in tables]}

    def serve(self):
        # Whatever a library prints must not corrupt the protocol.
        replies = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        for line in sys.stdin:
            request = json.loads(line)
            try:
                reply = getattr(self, request["op"])(request)
            except Exception as error:
                traceback.print_exc()
                reply = {"error": f"{type(error).__name__}: {error}"[:2000]}
            json.dump(reply, replies)
            replies.write("\n")
            replies.flush()
        self.engine.stop()


FARTHEST = 1e300  # stands for an infinite distance, which JSON cannot say


def rows(table):
    return answer(table["_rowid"].to_numpy(), table["_distance"].to_numpy())


def answer(ids, distances):
    if np.isnan(distances).any():
        raise ValueError("a distance is NaN")
    return {"ids": ids.tolist(), "distances": np.minimum(distances.astype("f8"), FARTHEST).tolist()}


NEAREST = (
    "nprobes",
    "minimum_nprobes",
    "maximum_nprobes",
    "refine_factor",
    "ef",
    "query_parallelism",
    "search_effort",
    "metric",
)


def nearest(search, vector):
    """Lance's `nearest` argument; whatever the search leaves out stays Lance's default."""
    options = {"column": search["column"], "q": vector, "k": search["k"]}
    for name in NEAREST:
        if search.get(name) is not None:
            options[name] = search[name]
    return options
