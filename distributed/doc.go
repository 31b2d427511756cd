// Package distributed searches a Lance dataset for nearest neighbours: it splits one search over index segments and query vectors, runs the
// parts on this machine's cores or on other machines, and merges them into the answer that one scan of the whole dataset gives.
//
// # The path of a query
//
//	VectorSearch          search.go    NewPlan, then Execute
//	  NewPlan             plan.go      everything that is decided before anything is searched
//	    Query.validate    query.go     arguments, and how many rows can be asked for
//	    copyFor           vectors.go   the caller's vectors are copied, in the column's element type
//	    chooseIndex       index.go     which index, and with it the metric
//	    checkFilter       plan.go      can the filter be planned; asked once for each
//	    requireCoverage   coverage.go  live rows that the index does not cover
//	    formUnits         units.go     segments whose live fragments overlap belong together
//	    demand.split      strategy.go  how many tasks, over rows or queries or both
//	    balance           group.go     which units go into which task
//	    makeTasks         layout.go    the tasks
//	  Plan.Execute        execute.go
//	    run               schedule.go  tasks go to the Executor (executor.go), with what is known by then (bounds.go)
//	    combine           merge.go     candidates are merged, and re-scored once
//	    take              execute.go   requested columns, of the rows found only
//	  Result              result.go
//
// What planning derives from the dataset alone is kept in a catalog (catalog.go) for as long as the handle lives.
//
// # What a search promises
//
// The rows and distances are those of Lance's own single scan over the same version, whichever strategy splits it, or the search is an error.
// Smaller distances are nearer for every metric; equal distances are ordered by row id. Which rows tied at the k-th place are found may vary
// with the strategy on an index that chooses among them; their distances do not.
//
// A plan holds one version of the dataset and a copy of the vectors, so neither commits nor the caller's later changes reach it. Every result
// says how many of the live rows it covered; rows outside the index are an error unless [Options].Unindexed says otherwise. Where no index on
// the column fits the metric, every row is searched flat, which is exact. +Inf stands for a distance only where that is the distance of a row;
// rows that Lance names without having read them are re-scored, with all rows of their query.
//
// # Choosing an index
//
// Options.IndexName wins. Without it: of the indexes on the column whose metric is the query's, the one that covers most live rows; of those
// the first by name. An unset metric fits every index and becomes that of the chosen one, once, for all tasks.
//
// # Splitting
//
// Probes are counted in each segment by Lance's own rules ([Query].NProbes and the like), so a split changes nothing about them. The library's
// own rule, in force where the query sets nothing, gives one budget to all segments of a task, so more tasks read more partitions, though a task
// that had to wait starts with the k-th distance found by then: recall does not fall, and Auto does not split a search that one native call
// spreads over all cores by itself.
package distributed
