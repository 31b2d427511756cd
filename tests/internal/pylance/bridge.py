"""Answers requests of the Go tests with pylance: one JSON object a line in, one a line out.

Tables travel as Arrow IPC streams in base64, numbers of results as little-endian arrays in base64, because JSON has
neither infinities nor exact floats.
"""

import base64
import datetime
import json
import os
import re
import sys
import uuid

import numpy as np
import pyarrow as pa

# Only answers may reach the pipe the tests read: whatever a library prints goes to stderr.
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

import lance  # noqa: E402
import lance.file  # noqa: E402
from lance import LanceOperation  # noqa: E402
from lance.fragment import DataFile  # noqa: E402

ARROW_TYPES = {"float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(), "uint8": pa.uint8()}
NUMPY_TYPES = {"float16": "<f2", "float32": "<f4", "float64": "<f8", "uint8": "u1"}

adapters = {}


def encode(values, dtype):
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()


def table_of(request):  # with "only", some of the columns
    table = pa.ipc.open_stream(base64.b64decode(request["ipc"])).read_all()
    return table.select(request["only"]) if "only" in request else table


def ipc_of(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def open_dataset(request, latest=False):
    return lance.dataset(
        request["uri"],
        version=None if latest else request.get("version") or None,
        storage_options=request.get("storage_options"),
    )


def do_write(r):
    ds = lance.write_dataset(
        table_of(r),
        r["uri"],
        mode=r.get("mode", "create"),
        max_rows_per_file=r.get("max_rows_per_file") or 1024 * 1024,
        enable_stable_row_ids=r.get("stable_row_ids", False),
        data_storage_version=r.get("data_storage_version"),
        storage_options=r.get("storage_options"),
    )
    return {"version": ds.version}


def do_delete(r):
    ds = open_dataset(r, latest=True)
    ds.delete(r["predicate"])
    return {"version": ds.version}


def do_update(r):
    ds = open_dataset(r, latest=True)
    ds.update(r["set"], where=r.get("where"))
    return {"version": ds.version}


def do_merge_insert(r):
    ds = open_dataset(r, latest=True)
    builder = ds.merge_insert(r["on"]).when_matched_update_all()
    if r.get("insert", True):
        builder = builder.when_not_matched_insert_all()
    builder.execute(table_of(r))
    return {"version": open_dataset(r, latest=True).version}


def do_update_columns(r):
    """Overwrites columns of rows in place, fragment by fragment, and commits an Update."""
    ds = open_dataset(r, latest=True)
    updated, fields = [], set()
    for fragment in ds.get_fragments():
        if fragment.fragment_id not in r["fragments"]:
            continue
        metadata, modified = fragment.update_columns(table_of(r), left_on=r["on"])
        updated.append(metadata)
        fields.update(modified)
    operation = LanceOperation.Update(updated_fragments=updated, fields_modified=sorted(fields))
    return {"version": lance.LanceDataset.commit(r["uri"], operation, read_version=ds.version).version}


def column_file(ds, table):
    """Writes a data file with the columns of a table and describes it for a commit."""
    name = f"{uuid.uuid4().hex}.lance"
    version = ds.data_storage_version
    with lance.file.LanceFileWriter(os.path.join(ds.uri, "data", name), table.schema, version=version) as writer:
        writer.write_batch(table)
    return DataFile.create(ds, name)


def do_data_replacement(r):
    ds = open_dataset(r, latest=True)
    data_file = column_file(ds, table_of(r))
    operation = LanceOperation.DataReplacement([LanceOperation.DataReplacementGroup(r["fragment"], data_file)])
    return {"version": lance.LanceDataset.commit(r["uri"], operation, read_version=ds.version).version}


def do_overlay(r):
    """Commits new values for cells of one fragment without rewriting it."""
    ds = open_dataset(r, latest=True)
    data_file = column_file(ds, table_of(r))
    overlay = LanceOperation.DataOverlayFile(data_file=data_file, offsets=r["offsets"])
    operation = LanceOperation.DataOverlay([LanceOperation.DataOverlayGroup(r["fragment"], [overlay])])
    return {"version": lance.LanceDataset.commit(r["uri"], operation, read_version=ds.version).version}


def do_add_columns(r):
    ds = open_dataset(r, latest=True)
    ds.add_columns(r["columns"])
    return {"version": ds.version}


def do_compact(r):
    ds = open_dataset(r, latest=True)
    options = {k: r[k] for k in ("target_rows_per_fragment", "materialize_deletions", "defer_index_remap") if k in r}
    ds.optimize.compact_files(num_threads=1, **options)
    return {"version": ds.version}


def do_optimize(r):
    ds = open_dataset(r, latest=True)
    options = {}
    if "merge" in r:
        options["num_indices_to_merge"] = r["merge"]
    if r.get("retrain"):
        options["retrain"] = True
    ds.optimize.optimize_indices(**options)
    return {"version": open_dataset(r, latest=True).version}


def index_options(r):
    names = (
        "num_partitions",
        "num_sub_vectors",
        "num_bits",
        "m",
        "ef_construction",
        "max_level",
        "sample_rate",
        "max_iters",
    )
    return {k: r[k] for k in names if k in r}


def do_create_index(r):
    """A whole index, or with "groups" one segment for each list of fragments, committed under one name."""
    ds = open_dataset(r, latest=True)
    kw = dict(name=r["name"], metric=r.get("metric") or "l2", **index_options(r))
    if r.get("groups") is None:
        ds.create_index(r["column"], r["type"], replace=r.get("replace", False), **kw)
        return {"version": ds.version}
    segments = []
    for i, group in enumerate(r["groups"]):
        per_segment = dict(kw)
        if r.get("metrics"):
            per_segment["metric"] = r["metrics"][i]
        segments.append(ds.create_index_uncommitted(r["column"], r["type"], fragment_ids=group, **per_segment))
    ds.commit_existing_index_segments(r["name"], r["column"], segments)
    return {"version": open_dataset(r, latest=True).version}


def do_force_index(r):
    """Commits segments as they are, past the checks of commit_existing_index_segments."""
    ds = open_dataset(r, latest=True)
    segments = [
        ds.create_index_uncommitted(
            r["column"], r["type"], name=r["name"], fragment_ids=group, metric=metric, **index_options(r)
        )
        for group, metric in zip(r["groups"], r["metrics"])
    ]
    operation = LanceOperation.CreateIndex(new_indices=segments, removed_indices=[])
    return {"version": lance.LanceDataset.commit(r["uri"], operation, read_version=ds.version).version}


def do_strip_bitmaps(r):
    """Makes segments that do not say which fragments they cover, as early versions of Lance wrote them: in the
    manifest of the latest version, the field fragment_bitmap (5) of each segment becomes one that no reader knows."""
    ds = open_dataset(r, latest=True)
    name = r["name"].encode()
    pattern = re.compile(b"(\x1a" + bytes([len(name)]) + re.escape(name) + b"\x20[\x80-\xff]*[\x00-\x7f])\\*")
    folder = os.path.join(r["uri"], "_versions")
    path = os.path.join(folder, f"{2**64 - 1 - ds.version:020}.manifest")
    with open(path, "rb") as f:
        text = f.read()
    text, count = pattern.subn(b"\\1\x7a", text)
    if count == 0:
        raise ValueError(f"no segment of {r['name']} in {path}")
    with open(path, "wb") as f:
        f.write(text)
    return {"version": ds.version}


def do_scalar_index(r):
    ds = open_dataset(r, latest=True)
    ds.create_scalar_index(r["column"], r["type"], name=r.get("name"))
    return {"version": ds.version}


def do_tag(r):
    ds = open_dataset(r)
    ds.tags.create(r["tag"], r["version"])
    return {}


def do_branch(r):
    ds = open_dataset(r)
    branch = ds.create_branch(r["branch"], r.get("version") or None)
    version = branch.version
    if r.get("ipc"):
        version = lance.write_dataset(table_of(r), branch, mode="append").version
    return {"version": version, "uri": branch.uri}


def do_cleanup(r):
    ds = open_dataset(r, latest=True)
    ds.cleanup_old_versions(older_than=datetime.timedelta(microseconds=1), delete_unverified=True)
    return {"version": ds.version}


def do_describe(r):
    ds = open_dataset(r)
    indexes = [
        {
            "name": index.name,
            "type": index.index_type,
            "segments": [{"uuid": str(s.uuid), "fragments": sorted(s.fragment_ids)} for s in index.segments],
        }
        for index in ds.describe_indices()
    ]
    fragments = [
        {"id": f.fragment_id, "physical_rows": f.physical_rows, "deleted_rows": f.num_deletions}
        for f in ds.get_fragments()
    ]
    return {"version": ds.version, "fragments": fragments, "indexes": indexes}


def do_scan(r):
    ds = open_dataset(r)
    table = ds.to_table(columns=r.get("columns"), filter=r.get("filter") or None, with_row_id=True)
    return {"ipc": ipc_of(table), "version": ds.version}


def query_vectors(r):
    kind, dim, per = r["value_type"], r["dim"], r.get("per_query", 0)
    flat = np.frombuffer(base64.b64decode(r["vectors"]), dtype=NUMPY_TYPES[kind])
    for row in flat.reshape(-1, max(per, 1), dim):
        if per:
            yield row.astype("f4")
        else:
            yield pa.array(row[0], type=ARROW_TYPES[kind])


def do_nearest(r):
    """One whole-dataset scan for each query vector."""
    ds = open_dataset(r)
    options = dict(r.get("nearest", {}))
    if "distance_range" in options:
        options["distance_range"] = tuple(options["distance_range"])
    counts, row_ids, distances, ids = [], [], [], []
    if r.get("segments") == []:
        n = len(list(query_vectors(r)))
        return {"counts": [0] * n, "row_ids": "", "distances": "", "ids": ""}  # nothing to search, which Lance refuses
    columns = ["_distance"] + ([r["id_column"]] if r.get("id_column") else [])
    for q in query_vectors(r):
        table = ds.scanner(
            columns=columns,
            nearest=dict(column=r["column"], q=q, **options),
            filter=r.get("filter") or None,
            prefilter=r.get("prefilter", True),
            with_row_id=True,
            fast_search=r.get("fast_search", False),
            limit=r.get("limit"),
            offset=r.get("offset"),
            fragments=[ds.get_fragment(f) for f in r["fragments"]] if r.get("fragments") else None,
            index_segments=r.get("segments"),
        ).to_table()
        counts.append(table.num_rows)
        row_ids.append(table["_rowid"].to_numpy())
        distances.append(table["_distance"].to_numpy())
        if r.get("id_column"):
            ids.append(table[r["id_column"]].to_numpy())
    return {
        "counts": counts,
        "row_ids": encode(np.concatenate(row_ids) if row_ids else [], "<u8"),
        "distances": encode(np.concatenate(distances) if distances else [], "<f4"),
        "ids": encode(np.concatenate(ids) if ids else [], "<i8"),
    }


def do_namespace_write(r):
    """Registers a table in a directory namespace and writes it there."""
    import lance.namespace

    ns = lance.namespace.DirectoryNamespace(root=r["root"])
    ds = lance.write_dataset(table_of(r), namespace_client=ns, table_id=r["table_id"], mode="create")
    return {"version": ds.version, "uri": ds.uri}


def do_rest_namespace(r):
    """Serves a directory namespace over REST until the process ends."""
    import lance.namespace

    adapter = lance.namespace.RestAdapter("dir", {"root": r["root"]}, host="127.0.0.1", port=0)
    adapter.start()
    adapters[r["root"]] = adapter
    return {"port": adapter.port}


def do_ping(_):
    return {"pylance": lance.__version__}


def main():
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = globals()["do_" + request["op"]](request)
        except KeyboardInterrupt:
            raise
        except BaseException as e:  # a panic in pylance is no Exception
            answer = {"error": f"{type(e).__name__}: {e}"}
        answers.write(json.dumps(answer) + "\n")


main()
