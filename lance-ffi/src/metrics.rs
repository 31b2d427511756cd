//! What one call read and reused.

use std::sync::atomic::{AtomicU64, Ordering};

use lance_index::metrics::MetricsCollector;
use lance_io::scheduler::IoStats;

pub struct Counters {
    pub parts_loaded: AtomicU64,
    pub partitions: AtomicU64,
    pub segments: AtomicU64,
    pub ranked: AtomicU64,
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    scan_bytes: AtomicU64,
    scan_requests: AtomicU64,
    io: IoStats,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            parts_loaded: AtomicU64::default(),
            partitions: AtomicU64::default(),
            segments: AtomicU64::default(),
            ranked: AtomicU64::default(),
            hits: AtomicU64::default(),
            misses: AtomicU64::default(),
            scan_bytes: AtomicU64::default(),
            scan_requests: AtomicU64::default(),
            io: IoStats::new(),
        }
    }
}

impl Counters {
    pub fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }

    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    /// (bytes, requests)
    pub fn io(&self) -> (u64, u64) {
        let stats = self.io.snapshot();
        (
            stats.bytes_read + Self::get(&self.scan_bytes),
            stats.requests + Self::get(&self.scan_requests),
        )
    }
}

impl MetricsCollector for Counters {
    fn record_parts_loaded(&self, n: usize) {
        Self::add(&self.parts_loaded, n);
    }

    fn record_index_loads(&self, n: usize) {
        Self::add(&self.misses, n);
    }

    fn record_comparisons(&self, _n: usize) {}

    fn record_index_cache_hits(&self, n: usize) {
        Self::add(&self.hits, n);
    }

    fn record_index_cache_misses(&self, n: usize) {
        Self::add(&self.misses, n);
    }

    fn io_stats(&self) -> Option<IoStats> {
        Some(self.io.clone())
    }
}

impl Counters {
    pub fn record_scan(&self, stats: &lance_datafusion::exec::ExecutionSummaryCounts) {
        Self::add(&self.scan_bytes, stats.bytes_read);
        Self::add(&self.scan_requests, stats.requests);
        Self::add(&self.parts_loaded, stats.parts_loaded);
        let count = |name: &str| stats.all_counts.get(name).copied().unwrap_or(0);
        Self::add(&self.partitions, count("partitions_searched"));
        Self::add(&self.ranked, count("partitions_ranked"));
        Self::add(&self.hits, stats.index_cache_hits());
        Self::add(&self.misses, stats.index_cache_misses());
    }
}
