"""Makes one benchmark data set: a Lance table, its index, two query files and their ground truth.

Usage: generate.py SPEC.json OUTPUT_DIRECTORY [EMBEDDINGS.npz]

Everything here is numpy and pylance. The library under test takes no part, so it cannot be judged by itself.
"""

import hashlib
import json
import os
import sys
import time

import lance
import numpy as np
import pyarrow as pa

CHUNK = 50_000
CATEGORIES = 1000
NO_ROW = np.uint64(2**64 - 1)


def log(message):
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


class Clusters:
    """Vectors from a latent space far smaller than the ambient one, so that recall means something."""

    def __init__(self, spec):
        self.spec = spec
        rng = np.random.default_rng(spec["seed"])
        latent, dim = spec["latent"], spec["dim"]
        self.weights = rng.standard_normal((latent, dim)).astype("f4") / np.sqrt(latent, dtype="f4")
        self.centres = rng.standard_normal((spec["clusters"], latent)).astype("f4") * np.float32(1.5)
        self.labels = rng.integers(0, spec["clusters"], spec["rows"])
        if spec["layout"] == "following":
            self.labels.sort()
        self.rows = spec["rows"]

    def embed(self, labels, rng):
        latent = self.centres[labels] + rng.standard_normal((len(labels), self.spec["latent"]), dtype="f4") * np.float32(0.7)
        noise = rng.standard_normal((len(labels), self.spec["dim"]), dtype="f4") * np.float32(0.02)
        return np.tanh(latent @ self.weights) + noise

    def chunk(self, start, stop):
        # Seeded by position, so a chunk does not depend on how the table is cut into fragments.
        first = start // CHUNK
        parts = []
        for number in range(first, (stop - 1) // CHUNK + 1):
            low, high = number * CHUNK, min((number + 1) * CHUNK, self.rows)
            rows = self.embed(self.labels[low:high], np.random.default_rng([self.spec["seed"], 1, number]))
            parts.append(rows[max(start - low, 0) : stop - low])
        return np.concatenate(parts)

    def titles(self, start, stop):
        return [f"row {i} of cluster {self.labels[i]}" for i in range(start, stop)]

    def queries(self, which, count):
        rng = np.random.default_rng([self.spec["seed"], 2 + which])
        return self.embed(rng.integers(0, self.spec["clusters"], count), rng)


class Text:
    """Real sentence embeddings; the queries are sentences that are not rows."""

    def __init__(self, spec, path):
        stored = np.load(path, allow_pickle=False)
        vectors, texts, topics = stored["vectors"], stored["texts"], stored["topics"]
        order = np.random.default_rng(spec["seed"]).permutation(len(vectors))
        held = 2 * spec["queries"]
        self.held = vectors[order[:held]]
        keep = order[held : held + spec["rows"]]
        if len(keep) < spec["rows"]:
            raise SystemExit(f"{len(vectors)} texts are not enough for {spec['rows']} rows and {held} queries")
        if spec["layout"] == "following":
            keep = keep[np.argsort(topics[keep], kind="stable")]
        self.vectors, self.texts = vectors[keep], texts[keep]
        self.count = spec["queries"]

    def chunk(self, start, stop):
        return self.vectors[start:stop]

    def titles(self, start, stop):
        return [str(t) for t in self.texts[start:stop]]

    def queries(self, which, count):
        return self.held[which * self.count : which * self.count + count]


def segment_sizes(spec):
    count, rows = spec["segments"], spec["rows"]
    weights = 1.0 / np.arange(1, count + 1) if spec["sizes"] == "skewed" else np.ones(count)
    edges = np.round(np.cumsum(weights) / weights.sum() * rows).astype(int)
    return np.diff(np.concatenate([[0], edges]))


def write_table(spec, source, uri):
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("cat", pa.int32()),
            ("cat_ix", pa.int32()),
            ("title", pa.string()),
            ("vec", pa.list_(pa.float32(), spec["dim"])),
        ]
    )
    categories = np.random.default_rng([spec["seed"], 9]).integers(0, CATEGORIES, spec["rows"], dtype="i4")
    groups, start = [], 0
    for size in segment_sizes(spec):
        fragments = []
        for part in np.array_split(np.arange(start, start + size), spec["fragments_per_segment"]):
            low, high = int(part[0]), int(part[-1]) + 1

            def batches(low=low, high=high):
                for i in range(low, high, CHUNK):
                    j = min(i + CHUNK, high)
                    cat = pa.array(categories[i:j])
                    vec = pa.FixedSizeListArray.from_arrays(pa.array(source.chunk(i, j).reshape(-1)), spec["dim"])
                    columns = [pa.array(np.arange(i, j)), cat, cat, pa.array(source.titles(i, j)), vec]
                    yield pa.record_batch(columns, schema=schema)

            reader = pa.RecordBatchReader.from_batches(schema, batches())
            mode = "append" if groups or fragments else "create"
            table = lance.write_dataset(reader, uri, mode=mode, max_rows_per_file=spec["rows"] + 1)
            fragments.append(max(f.fragment_id for f in table.get_fragments()))
        groups.append(fragments)
        start += size
    return groups


def build_index(spec, uri, groups):
    index = spec["index"]
    table = lance.dataset(uri)
    counts = {f.fragment_id: f.count_rows() for f in table.get_fragments()}
    segments = []
    for fragments in groups:
        rows = sum(counts[f] for f in fragments)
        options = {"num_partitions": index["partitions"] or max(1, int(np.sqrt(rows)))}
        if index.get("sub_vectors"):
            options["num_sub_vectors"] = index["sub_vectors"]
        segments.append(
            table.create_index_uncommitted(
                "vec", index["type"], name="vec_idx", metric=spec["metric"], fragment_ids=fragments, **options
            )
        )
        log(f"  segment of {rows} rows, {options['num_partitions']} partitions")
    table.commit_existing_index_segments("vec_idx", "vec", segments)
    if spec["filters"]:
        lance.dataset(uri).create_scalar_index("cat_ix", "BITMAP", name="cat_ix_idx")


def distances(metric, rows, queries, dtype):
    """Lance's distances of every row to every query: squared L2, 1 - cosine, 1 - dot."""
    rows, queries = rows.astype(dtype), queries.astype(dtype)
    if metric == "l2":
        return (queries * queries).sum(1)[:, None] - 2 * (queries @ rows.T) + (rows * rows).sum(1)[None]
    if metric == "cosine":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    return 1 - queries @ rows.T


def precise(metric, row_block, query):
    """float64 distances of a few rows to one query, without the cancellation of the matrix form."""
    rows, query = row_block.astype("f8"), query.astype("f8")
    if metric == "l2":
        return ((rows - query) ** 2).sum(1)
    if metric == "cosine":
        return 1 - rows @ query / (np.linalg.norm(rows, axis=1) * np.linalg.norm(query))
    return 1 - rows @ query


class Truth:
    """The nearest rows of each query under one filter: screened in float32, settled in float64."""

    def __init__(self, queries, depth, threshold):
        self.queries, self.depth, self.threshold = queries, depth, threshold
        self.keep = depth + max(32, depth // 4)
        self.distance = np.full((len(queries), self.keep), np.inf, "f4")
        self.position = np.full((len(queries), self.keep), -1, "i8")
        self.matching = 0

    def screen(self, block, categories, start):
        if self.threshold < CATEGORIES:
            chosen = np.flatnonzero(categories < self.threshold)
            block = block[:, chosen]
        else:
            chosen = np.arange(block.shape[1])
        self.matching += len(chosen)
        if block.shape[1] > self.keep:
            part = np.argpartition(block, self.keep, axis=1)[:, : self.keep]
            block = np.take_along_axis(block, part, 1)
            positions = chosen[part] + start
        else:
            positions = np.broadcast_to(chosen + start, block.shape)
        joined = np.concatenate([self.distance, block], 1)
        places = np.concatenate([self.position, positions], 1)
        part = np.argpartition(joined, self.keep - 1, axis=1)[:, : self.keep]
        self.distance = np.take_along_axis(joined, part, 1)
        self.position = np.take_along_axis(places, part, 1)

    def settle(self, metric, vectors, index_of, row_ids):
        count = len(self.queries)
        ids = np.full((count, self.depth), NO_ROW, "u8")
        exact = np.full((count, self.depth), np.inf, "f8")
        for q in range(count):
            found = self.position[q] >= 0
            places = self.position[q][found]
            true = precise(metric, vectors[index_of(places)], self.queries[q])
            order = np.lexsort((row_ids[places], true))[: self.depth]
            ids[q, : len(order)] = row_ids[places][order]
            exact[q, : len(order)] = true[order]
            if self.matching > self.keep:
                # A row that the float32 screen threw away must not belong among the nearest.
                error = 4 * np.abs(self.distance[q][found] - true).max()
                if exact[q, len(order) - 1] + error > self.distance[q].max() and len(order) == self.depth:
                    slack = self.distance[q].max() - exact[q, self.depth - 1]
                    raise SystemExit(f"float32 screening is too coarse for query {q}: slack {slack}, error {error}")
        return ids, exact


def ground_truth(spec, uri, query_sets, out):
    table = lance.dataset(uri)
    thresholds = [CATEGORIES] + spec["filters"]
    truths = {
        (name, t): Truth(queries, spec["depth"], t) for name, queries in query_sets.items() for t in thresholds
    }
    row_ids, start = [], 0
    # Read back from the table, so that what was written is what is judged.
    for batch in table.to_batches(columns=["vec", "cat", "id"], with_row_id=True, batch_size=20_000):
        rows = batch.column("vec").flatten().to_numpy().reshape(-1, spec["dim"])
        ids = batch.column("id").to_numpy()
        if not np.array_equal(ids, np.arange(start, start + len(ids))):
            raise SystemExit(f"rows read back out of order at {start}")
        categories = batch.column("cat").to_numpy()
        row_ids.append(batch.column("_rowid").to_numpy())
        for name, queries in query_sets.items():
            block = distances(spec["metric"], rows, queries, "f4")
            for threshold in thresholds:
                truths[name, threshold].screen(block, categories, start)
        start += len(rows)
    if start != spec["rows"]:
        raise SystemExit(f"read back {start} rows of {spec['rows']}")
    row_ids = np.concatenate(row_ids)

    wanted = np.unique(np.concatenate([t.position[t.position >= 0] for t in truths.values()]))
    vectors = np.empty((len(wanted), spec["dim"]), "f4")
    start = filled = 0
    for batch in table.to_batches(columns=["vec"], batch_size=20_000):
        rows = batch.column("vec").flatten().to_numpy().reshape(-1, spec["dim"])
        inside = wanted[(wanted >= start) & (wanted < start + len(rows))] - start
        vectors[filled : filled + len(inside)] = rows[inside]
        filled += len(inside)
        start += len(rows)

    files = {}
    for (name, threshold), truth in truths.items():
        ids, exact = truth.settle(spec["metric"], vectors, lambda p: np.searchsorted(wanted, p), row_ids)
        stem = f"{name}.cat{threshold}"
        ids.tofile(os.path.join(out, stem + ".ids.u64"))
        exact.tofile(os.path.join(out, stem + ".distances.f64"))
        files[stem] = {"matching_rows": truth.matching}
    return files


def check_against_flat_scan(spec, uri, queries, out):
    """Lance's own flat scan must agree with the ground truth; it shares no code with it."""
    table, depth = lance.dataset(uri), spec["depth"]
    ids = np.fromfile(os.path.join(out, "judge.cat1000.ids.u64"), "u8").reshape(-1, depth)
    exact = np.fromfile(os.path.join(out, "judge.cat1000.distances.f64"), "f8").reshape(-1, depth)
    for q in (0, len(queries) // 2, len(queries) - 1):
        nearest = {"column": "vec", "q": queries[q], "k": 10, "use_index": False, "metric": spec["metric"]}
        found = table.scanner(nearest=nearest, columns=["_distance"], with_row_id=True).to_table()
        got = np.sort(found["_distance"].to_numpy())
        if not np.allclose(got, exact[q, :10], rtol=1e-3, atol=1e-4):
            raise SystemExit(f"ground truth and flat scan differ for query {q}: {exact[q, :10]} and {got}")
        if len(set(found["_rowid"].to_pylist()) & set(ids[q, : min(depth, 12)].tolist())) < 9:
            raise SystemExit(f"ground truth and flat scan name other rows for query {q}")


def tree_hash(root):
    digest, total = hashlib.sha256(), 0
    for folder, subfolders, names in os.walk(root):
        subfolders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            size = os.path.getsize(path)
            total += size
            digest.update(f"{os.path.relpath(path, root)}\0{size}\0".encode())
            with open(path, "rb") as file:
                while block := file.read(1 << 22):
                    digest.update(block)
    return digest.hexdigest(), total


def main():
    with open(sys.argv[1]) as file:
        spec = json.load(file)
    out = sys.argv[2]
    uri = os.path.join(out, "table.lance")
    started = time.time()
    source = Text(spec, sys.argv[3]) if spec["source"] == "text" else Clusters(spec)
    groups = write_table(spec, source, uri)
    log(f"{spec['name']}: {spec['rows']} rows written")
    query_sets = {}
    for which, name in enumerate(("judge", "calib")):
        query_sets[name] = np.ascontiguousarray(source.queries(which, spec["queries"]), "f4")
        query_sets[name].tofile(os.path.join(out, name + ".queries.f32"))
    build_index(spec, uri, groups)
    log(f"{spec['name']}: index built")
    truth = ground_truth(spec, uri, query_sets, out)
    check_against_flat_scan(spec, uri, query_sets["judge"], out)
    table = lance.dataset(uri)
    digest, size = tree_hash(out)
    meta = {
        "spec": spec,
        "version": table.version,
        "rows": table.count_rows(),
        "fragments": [[f.fragment_id, f.count_rows()] for f in table.get_fragments()],
        "segments": len(groups),
        "truth": truth,
        "hash": digest,
        "bytes": size,
        "made_by": {"pylance": lance.__version__, "numpy": np.__version__, "python": sys.version.split()[0]},
        "seconds": round(time.time() - started, 1),
    }
    with open(os.path.join(out, "meta.json"), "w") as file:
        json.dump(meta, file, indent=1)
    log(f"{spec['name']}: done in {meta['seconds']} s, {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
