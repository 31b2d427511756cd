// Package topk merges lists of search candidates into the k nearest of each query.
//
// A search that is split over tasks gives one list of candidates a task. [Merge] and the reusable [Merger] turn those lists into the answer
// one search would have given:
//
//   - At most k candidates a query are kept, in a bounded heap, so memory follows k and never the number of candidates.
//   - The order is total: query, then distance, then row id. Smaller distances are nearer for every metric, negative ones included. -0 and 0
//     are the same distance.
//   - A row id counts once a query, at its smallest distance, however many lists hold it.
//   - A NaN distance is no distance: such a candidate is dropped. +Inf is one, and sorts after everything finite, so a placeholder for a row
//     whose distance nobody computed never takes the place of a neighbour.
//   - Lists may come in any order and need not be sorted. The answer does not depend on either.
//
// The package imports nothing of this module and no Arrow.
package topk
