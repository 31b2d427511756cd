package report

// caveats is what a reader must know before using the figures for something else.
const caveats = `
## What the figures do not show

- **Other machines.** Times are of one small virtual machine whose two logical cores may share a physical one. Ratios carry over better than times; a machine with
  many cores favours whatever can use them, which pylance does not for one query.
- **Other data.** The synthetic vectors come from a mixture of Gaussians in 16 latent dimensions. Queries come from the same distribution as the rows; queries from another
  one need more probes for the same recall. The real text is one corpus and one model.
- **Writers.** Nothing writes while the queries run, no fragment is stale, and no row is deleted or unindexed.
- **Real object storage.** The S3 server is on the loopback interface with a fixed delay before each answer: no jitter, no throttling, no bandwidth limit, no TLS.
  So the scenario counts round trips, and nothing else.
- **A cold disk.** "Cold" means a new process, or empty caches inside the library. The operating system's page cache holds the files in every local scenario.
- **Memory pressure.** Everything fits the index caches. An index larger than the cache is not measured.
- **Filters that follow the vectors.** Filtered columns are independent of the vectors. A filter that selects a far-away cluster needs more probes.
- **The caller's own work.** Timed is the library's call, from a vector in memory to row ids and distances in memory (and columns, where asked for). pylance returns an Arrow
  table, this library its result; turning either into something else is not timed.
- **Fleets.** lance-ray and this library both run on the one machine. What a network between workers costs is not measured here.
- **The best of several.** The reference in each scenario is the fastest pylance contender of that scenario, picked after the fact; this library's figure is its default, never
  picked. The contenders of one engine share a process, so one's peak memory is everyone's.
`
