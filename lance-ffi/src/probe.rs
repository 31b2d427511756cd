//! Which partitions of which segments a query reads, and in what order, when one budget covers all segments.
//!
//! Lance ranks the partitions of each segment by themselves and reads the nearest few of every one. Here the partitions of
//! all segments stand in one order: how near to the query a row in them could be. Reading goes on while that could still
//! be nearer than the k-th neighbour found so far, so a segment that holds nothing near is not read at all.
//!
//! L2 (and cosine, which is L2 between unit vectors). For a partition with centroid `c`, whose segment's centroid nearest to
//! the query `q` is `c0`:
//!  - every row of the partition is nearer to `c` than to `c0`, so it lies beyond the plane halfway between them, at
//!    least `(|q-c|^2 - |q-c0|^2) / (2 |c-c0|)` from the query (the distance of a point to a Voronoi boundary);
//!  - rows lie about `r` from `c` (the root mean square over the segment), so hardly one is nearer than `|q-c| - r`.
//!
//! The larger of the two is the reach of the partition. It is read while `reach <= slack * d_k`, where `d_k` is the distance
//! of the k-th neighbour so far. Both bounds are loose in high dimensions (a row's offset from its centroid is nearly at a
//! right angle to the direction of the query), which is why a slack below 1 loses almost nothing.
//!
//! Where vectors have many dimensions that count, as real embeddings do, rows lie nearly at a right angle to everything,
//! neither bound says much, and nearly all partitions could hold a neighbour. There a search ends when it has read for
//! long without finding one: a share of all it has read, since the neighbours of a query that is harder to answer are
//! spread wider.
//!
//! Dot product: Lance assigns a row `x` to the centroid with the largest `x.c`, and its centroids are unit vectors, so the
//! cells are those of the rows' directions `x/|x|` between unit vectors, where the two bounds hold as they are. A row at
//! least `e` from the direction of the query scores at most `|q| |x| (1 - e^2 / 2)`. With the largest norm `m` of the
//! segment's rows the reach, as a distance, is `1 - |q| m (1 - (e / slack)^2 / 2)`, read while not above the k-th
//! distance.

use std::cmp::Ordering;
use std::sync::Arc;

use lance_linalg::distance::DistanceType;
use lance_linalg::distance::dot::dot_f32;
use lance_linalg::distance::l2::l2_f32;

use crate::warm::Geometry;

/// Slack at search effort 0.5, calibrated in `bench/` on queries kept apart from those that judge it.
const SLACK: f32 = 0.75;

/// At search effort 0.5, a search ends when no neighbour was in the last 87 % of the partitions it read, and at least
/// in the last 56.
const IDLE_SHARE: f32 = 0.87;
const IDLE: f32 = 56.0;

/// Dot: a k-th neighbour longer than all rows that were sampled would end the search at once. Partitions that reach
/// this near to the query's direction, as a share of the slack, are read nevertheless.
const NEAR: f32 = 0.2;

/// Partitions read whatever the bound says, at search effort 0.5: it is a poor guess before a few have been read.
const FLOOR: f32 = 4.0;

/// Partitions sorted at a time: most queries read far fewer.
const CHUNK: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    pub segment: u32,
    pub partition: u32,
    /// Distance of the query to the centroid, as Lance measures it (squared for L2).
    pub centroid_distance: f32,
    reach: f32,
}

impl Probe {
    /// A partition that is read whatever is found.
    pub fn listed(segment: u32, partition: u32, centroid_distance: f32) -> Self {
        Self {
            segment,
            partition,
            centroid_distance,
            reach: 0.0,
        }
    }
}

/// How a k-th distance of the index limits what is still worth reading.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    metric: DistanceType,
    /// Index distances are this many times the squared Euclidean distance.
    scale: f32,
    slack: f32,
    floor: usize,
    idle: usize,
    idle_share: f32,
}

impl Rule {
    /// `effort` in [0, 1]: 0 reads the nearest partitions only, 0.5 is the calibrated default, 1 reads all. `watched` says
    /// that enough neighbours are kept to tell from their coming when no more will.
    pub fn new(metric: DistanceType, exact_cosine: bool, effort: f32, watched: bool) -> Self {
        let odds = if effort >= 1.0 {
            f32::INFINITY
        } else {
            effort / (1.0 - effort)
        };
        Self {
            metric,
            scale: if metric == DistanceType::Cosine && exact_cosine {
                0.5
            } else {
                1.0
            },
            slack: SLACK * odds,
            floor: (FLOOR * odds).clamp(1.0, 1e6) as usize,
            idle: if watched { (IDLE * odds) as usize } else { usize::MAX },
            idle_share: (1.0 - (1.0 - IDLE_SHARE) / odds).max(0.0),
        }
    }

    /// The reach beyond which nothing is read, given the k-th distance so far. `longest` as for `reach`, of all segments.
    fn cutoff(&self, kth: f32, longest: f32) -> f32 {
        if kth == f32::INFINITY || self.slack == f32::INFINITY {
            return f32::INFINITY;
        }
        match self.metric {
            DistanceType::Dot => kth.max(self.reach(NEAR * self.slack, longest)),
            _ => self.slack * (kth.max(0.0) / self.scale).sqrt(),
        }
    }

    /// The reach of rows `apart` from the query, or for dot from its direction; `longest` is the largest dot product that
    /// the query can have with rows of that segment.
    fn reach(&self, apart: f32, longest: f32) -> f32 {
        match self.metric {
            DistanceType::Dot => {
                let apart = apart / self.slack.max(f32::EPSILON);
                1.0 - longest * (1.0 - apart * apart / 2.0)
            }
            _ => apart,
        }
    }

    /// Squared distance of the query to a centroid, or for dot of its direction, from Lance's distance to it.
    fn squared(&self, distance: f32, query_norm: f32) -> f32 {
        match self.metric {
            DistanceType::Dot if query_norm > 0.0 => (2.0 - 2.0 * (1.0 - distance) / query_norm).max(0.0),
            DistanceType::Dot => 2.0,
            _ => distance.max(0.0),
        }
    }
}

/// The partitions of all segments, nearest reach first, sorted only as far as they are asked for.
pub struct Frontier {
    rule: Rule,
    cells: Vec<Option<Arc<Geometry>>>,
    /// Where each segment's partitions begin in `distances` and `reaches`.
    first: Vec<usize>,
    /// Of each segment: its centroid nearest to the query, and the distance to it.
    nearest: Vec<(u32, f32)>,
    /// Dot: the query's norm, and that times the largest of all segments' rows.
    norm: f32,
    longest: f32,
    distances: Vec<f32>,
    /// Bits of the reach, which order as the reach does: plain integers are compared many at a time.
    reaches: Vec<u32>,
    /// Partitions whose reach is at most this are in `sorted`, or were.
    taken: Option<u32>,
    sorted: Vec<Probe>,
    at: usize,
    count: usize,
    left: usize,
    given: usize,
}

/// Lance's pair kernels: its batch kernel for L2 was 4 times slower above 16 dimensions (AVX-512 host, v3 build).
fn centroid_distances(metric: DistanceType, query: &[f32], geometry: &Geometry, out: &mut [f32]) {
    let centroids = geometry.centroids.chunks_exact(geometry.dim);
    match metric {
        DistanceType::Dot => out
            .iter_mut()
            .zip(centroids)
            .for_each(|(d, c)| *d = 1.0 - dot_f32(query, c)),
        _ => out.iter_mut().zip(centroids).for_each(|(d, c)| *d = l2_f32(query, c)),
    }
}

/// Two sums of the same products in another order differ by far less than this share of them.
const RANKING_TOLERANCE: f32 = 1e-4;

/// The `nprobes` partitions of one segment that Lance would rank first, with their centroid distances, or None where
/// rounding could rank others and Lance must be asked.
pub fn nearest(metric: DistanceType, query: &[f32], geometry: &Geometry, nprobes: usize) -> Option<Vec<(u32, f32)>> {
    let mut distances = vec![0.0; geometry.lengths.len()];
    centroid_distances(metric, query, geometry, &mut distances);
    let mut order: Vec<u32> = (0..distances.len() as u32).collect();
    let distance = |p: &u32| distances[*p as usize];
    if nprobes < order.len() {
        let (_, cut, beyond) = order.select_nth_unstable_by(nprobes - 1, |a, b| distance(a).total_cmp(&distance(b)));
        let cut = distance(cut);
        let next = beyond.iter().map(distance).fold(f32::INFINITY, f32::min);
        let scale = cut
            .abs()
            .max(next.abs())
            .max(if metric == DistanceType::Dot { 1.0 } else { 0.0 });
        // A NaN is no gap either.
        if (next - cut).partial_cmp(&(RANKING_TOLERANCE * scale)) != Some(Ordering::Greater) {
            return None;
        }
        order.truncate(nprobes);
    }
    order.sort_unstable_by(|a, b| distance(a).total_cmp(&distance(b)));
    Some(order.into_iter().map(|p| (p, distances[p as usize])).collect())
}

/// Maps floats to integers of the same order.
fn ordered(value: f32) -> u32 {
    let bits = value.to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

fn unordered(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 1 { key & !(1 << 31) } else { !key })
}

/// An empty partition.
const NONE: u32 = u32::MAX;

impl Frontier {
    /// `cells` has an entry for each segment, None for one that holds no row that may be returned. `query` is normalised
    /// for cosine.
    pub fn new(rule: Rule, cells: Vec<Option<Arc<Geometry>>>, query: &[f32]) -> Self {
        let norm = if rule.metric == DistanceType::Dot {
            dot_f32(query, query).sqrt()
        } else {
            0.0
        };
        let total = cells.iter().flatten().map(|g| g.lengths.len()).sum();
        let mut distances = vec![0.0; total];
        let mut reaches = Vec::with_capacity(total);
        let mut first = Vec::with_capacity(cells.len());
        let mut nearest = Vec::with_capacity(cells.len());
        let mut longest = 0.0_f32;
        for geometry in &cells {
            let from = reaches.len();
            first.push(from);
            let mut best = (0, f32::INFINITY);
            if let Some(geometry) = geometry {
                let out = &mut distances[from..from + geometry.lengths.len()];
                centroid_distances(rule.metric, query, geometry, out);
                for (partition, distance) in out.iter().enumerate() {
                    if *distance < best.1 {
                        best = (partition as u32, *distance);
                    }
                }
                let of_segment = norm * geometry.longest;
                longest = of_segment.max(longest);
                reaches.extend(out.iter().zip(&geometry.lengths).map(|(distance, rows)| {
                    let apart = (rule.squared(*distance, norm).sqrt() - geometry.radius).max(0.0);
                    let reach = rule.reach(apart, of_segment);
                    if *rows == 0 { NONE } else { ordered(reach) }
                }));
            }
            nearest.push(best);
        }
        let count = reaches.iter().filter(|reach| **reach != NONE).count();
        Self {
            rule,
            cells,
            first,
            nearest,
            norm,
            longest,
            distances,
            reaches,
            taken: None,
            sorted: Vec::new(),
            at: 0,
            count,
            left: count,
            given: 0,
        }
    }

    pub fn ranked(&self) -> usize {
        self.count
    }

    fn boundary(&self, probe: &Probe) -> f32 {
        let (nearest, distance) = self.nearest[probe.segment as usize];
        if nearest == probe.partition {
            return f32::NEG_INFINITY;
        }
        let Some(geometry) = &self.cells[probe.segment as usize] else {
            return f32::NEG_INFINITY;
        };
        let centroid = |p: u32| &geometry.centroids[p as usize * geometry.dim..][..geometry.dim];
        let apart = l2_f32(centroid(probe.partition), centroid(nearest)).sqrt();
        if apart <= f32::MIN_POSITIVE {
            return f32::NEG_INFINITY;
        }
        let squared = |distance: f32| self.rule.squared(distance, self.norm);
        let plane = (squared(probe.centroid_distance) - squared(distance)) / (2.0 * apart);
        self.rule.reach(plane, self.norm * geometry.longest)
    }

    fn is_left(&self, reach: u32) -> bool {
        reach != NONE && self.taken.is_none_or(|taken| reach > taken)
    }

    fn refill(&mut self) {
        let mut keys: Vec<u32> = self
            .reaches
            .iter()
            .copied()
            .filter(|reach| self.is_left(*reach))
            .collect();
        // Each time twice as many: a search that goes on tends to go on.
        let wanted = CHUNK.max(2 * (self.count - self.left)).min(keys.len());
        let last = *keys.select_nth_unstable(wanted - 1).1;
        let mut chunk: Vec<Probe> = Vec::with_capacity(wanted + CHUNK);
        for (segment, from) in self.first.iter().enumerate() {
            let to = self.first.get(segment + 1).copied().unwrap_or(self.reaches.len());
            for (partition, reach) in self.reaches[*from..to].iter().enumerate() {
                if *reach <= last && self.is_left(*reach) {
                    chunk.push(Probe {
                        segment: segment as u32,
                        partition: partition as u32,
                        centroid_distance: self.distances[from + partition],
                        reach: unordered(*reach),
                    });
                }
            }
        }
        self.left -= chunk.len();
        self.taken = Some(last);
        for probe in &mut chunk {
            probe.reach = probe.reach.max(self.boundary(probe));
        }
        chunk.extend_from_slice(&self.sorted[self.at..]);
        chunk.sort_unstable_by(|a, b| {
            a.reach
                .total_cmp(&b.reach)
                .then(a.centroid_distance.total_cmp(&b.centroid_distance))
        });
        self.sorted = chunk;
        self.at = 0;
    }

    /// The next partition worth reading while the k-th distance is `kth` and the last neighbour was found after `improved`
    /// partitions; None when there is none.
    pub fn next(&mut self, kth: f32, improved: usize) -> Option<Probe> {
        let idle = self.given.saturating_sub(improved);
        if kth < f32::INFINITY && idle > self.rule.idle && idle as f32 > self.rule.idle_share * self.given as f32 {
            return None;
        }
        let cutoff = if self.given < self.rule.floor {
            f32::INFINITY
        } else {
            self.rule.cutoff(kth, self.longest)
        };
        loop {
            match self.sorted.get(self.at) {
                Some(probe) if probe.reach <= cutoff => {
                    self.at += 1;
                    self.given += 1;
                    return Some(*probe);
                }
                _ if self.left == 0 => return None,
                // What is not sorted yet reaches no less far than the last that was, before boundaries raised it.
                _ if self.taken.is_some_and(|taken| unordered(taken) > cutoff) => return None,
                _ => self.refill(),
            }
        }
    }

    /// The partition that the query lies nearest to: queries that share it share memory too.
    pub fn home(&self) -> (u32, u32) {
        self.nearest
            .iter()
            .enumerate()
            .min_by(|a, b| a.1.1.total_cmp(&b.1.1))
            .map_or((0, 0), |(segment, (partition, _))| (segment as u32, *partition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: usize = 8;

    /// Numbers in [-1, 1) that a test can repeat.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> f32 {
            self.0 = self
                .0
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
        }

        fn vector(&mut self) -> Vec<f32> {
            (0..DIM).map(|_| self.next()).collect()
        }

        fn cells(&mut self, partitions: usize, radius: f32) -> Option<Arc<Geometry>> {
            Some(Arc::new(Geometry {
                dim: DIM,
                centroids: (0..partitions).flat_map(|_| self.vector()).collect::<Vec<_>>().into(),
                radius,
                longest: 1.0,
                lengths: (0..partitions).map(|p| (p % 7 != 3) as u32 * 10).collect(),
                same_as_lance: true,
            }))
        }
    }

    fn squared(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (*a as f64 - *b as f64).powi(2)).sum()
    }

    /// The reach as the module's text defines it, in float64.
    fn reach(cells: &Geometry, partition: usize, query: &[f32]) -> f64 {
        let centroid = |p: usize| &cells.centroids[p * DIM..][..DIM];
        let all = cells.lengths.len();
        let nearest = (0..all)
            .min_by(|a, b| squared(query, centroid(*a)).total_cmp(&squared(query, centroid(*b))))
            .unwrap();
        let d = squared(query, centroid(partition));
        let shell = d.sqrt() - cells.radius as f64;
        let plane =
            (d - squared(query, centroid(nearest))) / (2.0 * squared(centroid(partition), centroid(nearest)).sqrt());
        shell.max(0.0).max(if plane.is_nan() { 0.0 } else { plane })
    }

    fn drain(frontier: &mut Frontier, kth: f32) -> Vec<Probe> {
        std::iter::from_fn(|| frontier.next(kth, usize::MAX)).collect()
    }

    fn ids(probes: &[Probe]) -> Vec<(u32, u32)> {
        let mut ids: Vec<_> = probes.iter().map(|p| (p.segment, p.partition)).collect();
        ids.sort_unstable();
        ids
    }

    fn everything(cells: &[Option<Arc<Geometry>>]) -> Vec<(u32, u32)> {
        let of = |(s, g): (usize, &Option<Arc<Geometry>>)| {
            let lengths = g.iter().flat_map(|g| g.lengths.clone()).collect::<Vec<_>>();
            (0..lengths.len())
                .filter(|p| lengths[*p] > 0)
                .map(|p| (s as u32, p as u32))
                .collect::<Vec<_>>()
        };
        cells.iter().enumerate().flat_map(of).collect()
    }

    #[test]
    fn with_no_bound_every_partition_that_holds_rows_comes_once() {
        let mut numbers = Numbers(7);
        let cells = vec![
            numbers.cells(300, 0.9),
            None,
            numbers.cells(41, 0.2),
            numbers.cells(1, 0.5),
        ];
        let rule = Rule::new(DistanceType::L2, true, 0.5, true);
        let mut frontier = Frontier::new(rule, cells.clone(), &numbers.vector());
        let all = drain(&mut frontier, f32::INFINITY);
        assert_eq!(ids(&all), everything(&cells));
        assert_eq!(frontier.ranked(), all.len());
    }

    #[test]
    fn a_bound_keeps_exactly_what_can_still_be_near() {
        let mut numbers = Numbers(11);
        for kth in [0.05_f32, 0.4, 1.3, 4.0] {
            let cells = vec![numbers.cells(260, 0.6), numbers.cells(90, 0.9)];
            let query = numbers.vector();
            let rule = Rule::new(DistanceType::L2, true, 0.5, true);
            let cutoff = SLACK as f64 * (kth as f64).sqrt();
            let got = drain(&mut Frontier::new(rule, cells.clone(), &query), kth);
            for (segment, partition) in everything(&cells) {
                let reach = reach(cells[segment as usize].as_ref().unwrap(), partition as usize, &query);
                let read = got.iter().any(|p| (p.segment, p.partition) == (segment, partition));
                if (reach - cutoff).abs() < 1e-4 || got.len() <= FLOOR as usize {
                    continue;
                }
                assert_eq!(read, reach <= cutoff, "kth {kth}: reach {reach}, cutoff {cutoff}");
            }
        }
    }

    fn unit(vector: &[f32]) -> Vec<f32> {
        let norm = dot_f32(vector, vector).sqrt();
        vector.iter().map(|v| v / norm).collect()
    }

    fn on_the_sphere(cells: &Option<Arc<Geometry>>) -> Option<Arc<Geometry>> {
        let cells = cells.as_ref()?;
        Some(Arc::new(Geometry {
            dim: DIM,
            centroids: cells.centroids.chunks(DIM).flat_map(unit).collect::<Vec<_>>().into(),
            radius: cells.radius,
            longest: cells.longest,
            lengths: cells.lengths.clone(),
            same_as_lance: true,
        }))
    }

    /// Between unit vectors the squared distance is twice the dot distance.
    #[test]
    fn dot_of_unit_vectors_reads_what_l2_reads() {
        let mut numbers = Numbers(23);
        for kth in [0.1_f32, 0.3, 0.7] {
            let cells = [numbers.cells(200, 0.3), numbers.cells(60, 0.4)]
                .map(|c| on_the_sphere(&c))
                .to_vec();
            let query = unit(&numbers.vector());
            let read = |metric, kth| {
                let rule = Rule::new(metric, true, 0.5, true);
                ids(&drain(&mut Frontier::new(rule, cells.clone(), &query), kth))
            };
            let near = read(DistanceType::L2, 2.0 * kth);
            assert_eq!(read(DistanceType::Dot, kth), near, "kth {kth}");
            assert!(near.len() < 260, "kth {kth} rules nothing out");
        }
    }

    #[test]
    fn dot_with_a_neighbour_longer_than_the_sample_still_reads_what_is_near() {
        let mut numbers = Numbers(29);
        let cells = vec![on_the_sphere(&numbers.cells(200, 0.9))];
        let rule = Rule::new(DistanceType::Dot, true, 0.5, true);
        let query = numbers.vector();
        let got = drain(&mut Frontier::new(rule, cells, &query), -100.0);
        assert!(got.len() > FLOOR as usize, "{} partitions", got.len());
    }

    #[test]
    fn a_few_are_read_whatever_the_bound_says() {
        let mut numbers = Numbers(13);
        let cells = vec![numbers.cells(50, 0.0)];
        let rule = Rule::new(DistanceType::L2, true, 0.5, true);
        let got = drain(&mut Frontier::new(rule, cells, &numbers.vector()), 0.0);
        assert_eq!(got.len(), FLOOR as usize);
    }

    #[test]
    fn a_search_ends_when_it_has_long_found_nothing() {
        let mut numbers = Numbers(31);
        let cells = vec![numbers.cells(2000, 5.0)];
        let query = numbers.vector();
        let read = |watched, kth: f32, improves: fn(usize) -> bool| {
            let rule = Rule::new(DistanceType::L2, true, 0.5, watched);
            let mut frontier = Frontier::new(rule, cells.clone(), &query);
            let (mut read, mut improved) = (0, 0);
            while frontier.next(kth, improved).is_some() {
                read += 1;
                if improves(read) {
                    improved = read;
                }
            }
            read
        };
        let all = everything(&cells).len();
        // No cell can be ruled out by its reach here.
        assert_eq!(read(true, 1e6, |n| n % 40 == 0), all);
        assert_eq!(read(false, 1e6, |n| n < 20), all, "too few neighbours are watched");
        assert_eq!(read(true, f32::INFINITY, |n| n < 20), all, "fewer than k are known");
        assert_eq!(read(true, 1e6, |n| n <= 20), 154, "20 is 13 % of it");
        assert_eq!(read(true, 1e6, |n| n == 1), 1 + 1 + IDLE as usize);
    }

    #[test]
    fn effort_runs_from_the_nearest_partition_to_all() {
        let mut numbers = Numbers(17);
        for metric in [DistanceType::L2, DistanceType::Cosine, DistanceType::Dot] {
            let mut cells = vec![numbers.cells(80, 0.5), numbers.cells(80, 0.5)];
            if metric == DistanceType::Dot {
                cells = cells.iter().map(on_the_sphere).collect();
            }
            let query = numbers.vector();
            let mut read = Vec::new();
            for effort in [0.0, 0.25, 0.5, 0.75, 1.0] {
                let rule = Rule::new(metric, false, effort, true);
                read.push(drain(&mut Frontier::new(rule, cells.clone(), &query), 0.3).len());
            }
            assert!(read.is_sorted(), "{metric}: {read:?}");
            assert!(read[0] >= 1, "{metric}: {read:?}");
            assert_eq!(read[4], everything(&cells).len(), "{metric}");
        }
    }

    #[test]
    fn the_nearest_partitions_are_those_of_a_sort() {
        let mut numbers = Numbers(19);
        for nprobes in [1, 5, 39, 40, 100] {
            let cells = numbers.cells(40, 0.5).unwrap();
            let query = numbers.vector();
            let mut want: Vec<(f64, u32)> = (0..40)
                .map(|p| (squared(&query, &cells.centroids[p as usize * DIM..][..DIM]), p))
                .collect();
            want.sort_by(|a, b| a.0.total_cmp(&b.0));
            let got = nearest(DistanceType::L2, &query, &cells, nprobes).expect("no two are that near");
            let want: Vec<u32> = want.iter().take(nprobes).map(|w| w.1).collect();
            assert_eq!(got.iter().map(|g| g.0).collect::<Vec<_>>(), want);
        }
    }

    #[test]
    fn what_rounding_could_rank_otherwise_is_left_to_lance() {
        let centroid = vec![0.5_f32; DIM];
        let mut other = centroid.clone();
        other[0] = 0.500001;
        let cells = Geometry {
            dim: DIM,
            centroids: [centroid, other].concat().into(),
            radius: 0.1,
            longest: 1.0,
            lengths: vec![1, 1],
            same_as_lance: true,
        };
        assert_eq!(nearest(DistanceType::L2, &[1.0; DIM], &cells, 1), None);
        assert!(nearest(DistanceType::L2, &[1.0; DIM], &cells, 2).is_some());
    }

    #[test]
    fn integers_order_as_floats_do() {
        let mut values = [3.5, -0.0, 0.0, -7.0, f32::INFINITY, f32::NEG_INFINITY, 1e-30, -1e-30];
        values.sort_by(f32::total_cmp);
        assert!(values.map(ordered).is_sorted());
        assert_eq!(
            values.map(|v| unordered(ordered(v)).to_bits()),
            values.map(f32::to_bits)
        );
    }
}
