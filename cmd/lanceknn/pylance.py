"""Searches for the demo with pylance: a line of JSON in, a line of JSON out."""

import json
import sys
import time

import lance
import numpy

setup = json.loads(sys.stdin.readline())
dataset = lance.dataset(setup["uri"])
queries = numpy.load(setup["queries"])
print(json.dumps({"version": lance.__version__}), flush=True)


def search(q, nprobes):
    nearest = {"column": setup["column"], "q": q, "k": setup["k"], "refine_factor": setup["refine_factor"]}
    if nprobes:
        nearest["nprobes"] = nprobes
    start = time.perf_counter()
    table = dataset.to_table(columns=["_distance"], with_row_id=True, nearest=nearest)
    return (time.perf_counter() - start) * 1000, table


for line in sys.stdin:
    job = json.loads(line)
    reply = {"ms": [], "row_ids": [[] for _ in queries], "distances": [[] for _ in queries]}
    if job["matrix"]:
        ms, table = search(queries, job["nprobes"])
        reply["ms"].append(ms)
        rows = zip(table["query_index"].to_pylist(), table["_rowid"].to_pylist(), table["_distance"].to_pylist())
        for query, row_id, distance in rows:
            reply["row_ids"][query].append(row_id)
            reply["distances"][query].append(distance)
    else:
        for i, query in enumerate(queries):
            ms, table = search(query, job["nprobes"])
            reply["ms"].append(ms)
            reply["row_ids"][i] = table["_rowid"].to_pylist()
            reply["distances"][i] = table["_distance"].to_pylist()
    print(json.dumps(reply), flush=True)
