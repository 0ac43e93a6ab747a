//! t-digests: quantiles of a stream of numbers from weighted means.
//!
//! Numbers gather after the merged nodes. When there is no place for another, all nodes are
//! sorted and neighbours are merged, the more the nearer they are to the median.
//!
//! Dunning and Ertl, *Computing Extremely Accurate Quantiles Using t-Digests* (2019).
//!
//! ```text
//! space: nodes of 16 bytes: mean, weight; merged nodes first
//! ```

use crate::{BYTES_MAX, Malformed, Numbers, Space, TooLarge};

/// Bytes of a node.
pub const NODE_BYTES: u64 = 16;
/// Nodes for each unit of compression, and beyond.
const NODES_PER_COMPRESSION: u64 = 6;
const NODES_BEYOND: u64 = 10;
/// Nodes that are sorted in the original's order, in which nodes with equal means change places.
/// It takes quadratic time for equal means, so more nodes are sorted stably.
const SORTED_ALIKE_MAX: usize = 4096;
/// Bytes that the original counts beside the nodes.
const MEMORY_BESIDE: u64 = 8;

/// A mean and its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    pub mean: f64,
    pub weight: i64,
}

/// The head of a digest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// At least 1.
    pub compression: f64,
    /// The smallest number; the largest float if there is none.
    pub min: f64,
    pub max: f64,
    /// Nodes that there is a place for.
    pub capacity: u64,
    pub merged_nodes: u64,
    pub unmerged_nodes: u64,
    pub merged_weight: i64,
    pub unmerged_weight: i64,
    pub compressions: i64,
}

/// Weights exceed what a digest can count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

impl Head {
    /// An empty digest.
    pub fn new(compression: f64) -> Result<Head, TooLarge> {
        // A compression of that size has no memory anyway.
        if !(compression >= 1.0 && compression < BYTES_MAX as f64) {
            return Err(TooLarge);
        }
        let capacity = NODES_PER_COMPRESSION * compression as u64 + NODES_BEYOND;
        if capacity * NODE_BYTES > BYTES_MAX {
            return Err(TooLarge);
        }
        Ok(Head {
            compression,
            min: f64::MAX,
            max: -f64::MAX,
            capacity,
            merged_nodes: 0,
            unmerged_nodes: 0,
            merged_weight: 0,
            unmerged_weight: 0,
            compressions: 0,
        })
    }

    /// An empty digest of the same compression.
    pub fn reset(self) -> Head {
        let capacity = self.capacity;
        Head {
            capacity,
            ..Head::new(self.compression).unwrap_or(self)
        }
    }

    /// Bytes of the space.
    pub fn space_bytes(&self) -> u64 {
        self.capacity * NODE_BYTES
    }

    /// Bytes that the original takes for it.
    pub fn memory_bytes(&self) -> u64 {
        self.space_bytes() + MEMORY_BESIDE
    }

    /// Numbers that were added.
    pub fn size(&self) -> i64 {
        self.merged_weight.wrapping_add(self.unmerged_weight)
    }

    fn nodes(&self) -> u64 {
        self.merged_nodes + self.unmerged_nodes
    }

    /// There is no place for another node before a merge.
    fn is_full(&self) -> bool {
        self.nodes() + 1 >= self.capacity
    }

    fn count(&mut self, mean: f64, weight: i64) -> Result<(), Overflow> {
        let unmerged = self.unmerged_weight.checked_add(weight).ok_or(Overflow)?;
        unmerged.checked_add(self.merged_weight).ok_or(Overflow)?;
        self.min = self.min.min(mean);
        self.max = self.max.max(mean);
        self.unmerged_nodes += 1;
        self.unmerged_weight = unmerged;
        Ok(())
    }

    /// Adds a number, and merges nodes if there is no place.
    pub fn add(&mut self, space: &mut dyn Space, mean: f64) -> Result<(), Overflow> {
        if self.is_full() {
            let mut digest = Digest::read(*self, space);
            digest.compress();
            digest.write(space);
            *self = digest.head;
        }
        if self.nodes() >= self.capacity {
            return Err(Overflow);
        }
        let at = self.nodes() * NODE_BYTES;
        self.count(mean, 1)?;
        space.write(at, &Node { mean, weight: 1 }.to_bytes());
        Ok(())
    }

    /// The stored head.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(72);
        for number in [self.compression, self.min, self.max] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.capacity, self.merged_nodes, self.unmerged_nodes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.merged_weight, self.unmerged_weight, self.compressions] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads a stored head.
    pub fn from_bytes(bytes: &[u8]) -> Result<Head, Malformed> {
        let mut numbers = Numbers(bytes);
        let head = Head {
            compression: numbers.f64()?,
            min: numbers.f64()?,
            max: numbers.f64()?,
            capacity: numbers.u64()?,
            merged_nodes: numbers.u64()?,
            unmerged_nodes: numbers.u64()?,
            merged_weight: numbers.u64()? as i64,
            unmerged_weight: numbers.u64()? as i64,
            compressions: numbers.u64()? as i64,
        };
        numbers.end()?;
        head.checked()
    }

    /// The head, if its nodes fit.
    pub fn checked(self) -> Result<Head, Malformed> {
        let made = Head::new(self.compression).map_err(|TooLarge| Malformed)?;
        let nodes = self.merged_nodes.checked_add(self.unmerged_nodes);
        let is_sound = made.capacity == self.capacity
            && nodes.is_some_and(|nodes| nodes <= self.capacity)
            && !self.min.is_nan()
            && !self.max.is_nan()
            && self.merged_weight >= 0
            && self.unmerged_weight >= 0
            && self.merged_weight.checked_add(self.unmerged_weight).is_some();
        match is_sound {
            true => Ok(self),
            false => Err(Malformed),
        }
    }
}

impl Node {
    fn to_bytes(self) -> [u8; NODE_BYTES as usize] {
        let mut bytes = [0; NODE_BYTES as usize];
        bytes[..8].copy_from_slice(&self.mean.to_le_bytes());
        bytes[8..].copy_from_slice(&self.weight.to_le_bytes());
        bytes
    }
}

/// A whole digest in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    pub head: Head,
    /// The merged nodes, then the others.
    pub nodes: Vec<Node>,
}

impl Digest {
    /// An empty digest.
    pub fn new(compression: f64) -> Result<Digest, TooLarge> {
        let head = Head::new(compression)?;
        Ok(Digest {
            head,
            nodes: Vec::new(),
        })
    }

    /// Reads all nodes.
    pub fn read(head: Head, space: &mut dyn Space) -> Digest {
        let mut bytes = vec![0; (head.nodes() * NODE_BYTES) as usize];
        space.read(0, &mut bytes);
        let nodes = bytes.chunks_exact(NODE_BYTES as usize).map(|node| {
            let (mean, weight) = node.split_at(8);
            Node {
                mean: f64::from_le_bytes(mean.try_into().expect("eight bytes")),
                weight: i64::from_le_bytes(weight.try_into().expect("eight bytes")),
            }
        });
        Digest {
            head,
            nodes: nodes.collect(),
        }
    }

    /// Writes all nodes. The space after them may have earlier nodes, which are not read.
    pub fn write(&self, space: &mut dyn Space) {
        let bytes: Vec<u8> = self.nodes.iter().flat_map(|node| node.to_bytes()).collect();
        space.write(0, &bytes);
    }

    /// Adds a weighted number.
    fn add(&mut self, node: Node) -> Result<(), Overflow> {
        if self.head.is_full() {
            self.compress();
        }
        if self.head.nodes() >= self.head.capacity {
            return Err(Overflow);
        }
        self.head.count(node.mean, node.weight)?;
        self.nodes.push(node);
        Ok(())
    }

    /// Adds the merged nodes of another digest.
    pub fn merge(&mut self, mut other: Digest) -> Result<(), Overflow> {
        self.compress();
        other.compress();
        other.nodes.into_iter().try_for_each(|node| self.add(node))
    }

    /// Sorts the nodes and merges neighbours, if some have not been merged.
    pub fn compress(&mut self) {
        if self.head.unmerged_nodes == 0 {
            return;
        }
        sort(&mut self.nodes);
        let total = self.head.merged_weight as f64 + self.head.unmerged_weight as f64;
        self.merge_neighbours(total);
        self.head.merged_nodes = self.nodes.len() as u64;
        self.head.merged_weight = total as i64;
        self.head.unmerged_nodes = 0;
        self.head.unmerged_weight = 0;
        self.head.compressions = self.head.compressions.saturating_add(1);
    }

    fn merge_neighbours(&mut self, total: f64) {
        let normalizer = self.head.compression / (2.0 * std::f64::consts::PI * total * total.ln());
        let (mut current, mut before) = (0, 0.0);
        for index in 1..self.nodes.len() {
            let (node, last) = (self.nodes[index], self.nodes[current]);
            let proposed = last.weight as f64 + node.weight as f64;
            let scaled = proposed * normalizer;
            let fits = |weight: f64| {
                let quantile = weight / total;
                scaled <= quantile * (1.0 - quantile)
            };
            if fits(before) && fits(before + proposed) {
                let weight = last.weight.saturating_add(node.weight);
                let mean = last.mean + (node.mean - last.mean) * node.weight as f64 / weight as f64;
                self.nodes[current] = Node { mean, weight };
            } else {
                before += last.weight as f64;
                current += 1;
                self.nodes[current] = node;
            }
        }
        self.nodes.truncate(current + 1);
    }

    /// The number below which the share `quantile` of all numbers is; NaN of an empty digest.
    /// Merged nodes only.
    pub fn quantile(&self, quantile: f64) -> f64 {
        let share = quantile * self.head.merged_weight as f64;
        match self.nodes.as_slice() {
            [] => f64::NAN,
            _ if !(0.0..=1.0).contains(&quantile) => f64::NAN,
            [only] => only.mean,
            _ if share < 1.0 => self.head.min,
            _ => Walk::new(self).number_at(share),
        }
    }

    /// The same for several quantiles in their order, which rises.
    pub fn quantiles(&self, quantiles: &[f64]) -> Vec<f64> {
        match self.nodes.as_slice() {
            [] => vec![f64::NAN; quantiles.len()],
            [only] => vec![only.mean; quantiles.len()],
            _ => {
                let mut walk = Walk::new(self);
                let weight = self.head.merged_weight as f64;
                quantiles.iter().map(|share| walk.number_at(share * weight)).collect()
            }
        }
    }

    /// The share of numbers that are at most `number`; NaN of an empty digest.
    pub fn share_up_to(&self, number: f64) -> f64 {
        let Head { min, max, .. } = self.head;
        let total = self.head.merged_weight as f64;
        let (Some(first), Some(last)) = (self.nodes.first(), self.nodes.last()) else {
            return f64::NAN;
        };
        if number < min {
            return 0.0;
        }
        if number > max {
            return 1.0;
        }
        if self.nodes.len() == 1 {
            let width = max - min;
            return match number - min <= width {
                true => 0.5,
                false => (number - min) / width,
            };
        }
        // Beyond the outer means there is one number at the very end.
        let tail = |width: f64, from_end: f64, weight: i64| match (width > 0.0, from_end == 0.0) {
            (false, _) => 0.0,
            (true, true) => 0.5 / total,
            (true, false) => (1.0 + from_end / width * (weight as f64 / 2.0 - 1.0)) / total,
        };
        if number < first.mean {
            return tail(first.mean - min, number - min, first.weight);
        }
        if number > last.mean {
            return 1.0 - tail(max - last.mean, max - number, last.weight);
        }
        self.share_between_means(number, total)
    }

    fn share_between_means(&self, number: f64, total: f64) -> f64 {
        let mut before = 0.0;
        for (index, pair) in self.nodes.windows(2).enumerate() {
            let [node, next] = [pair[0], pair[1]];
            if node.mean == number {
                let equal = self.nodes[index..].iter().take_while(|node| node.mean == number);
                let weight: f64 = equal.map(|node| node.weight as f64).sum();
                return (before + weight / 2.0) / total;
            }
            let (weight, next_weight) = (node.weight as f64, next.weight as f64);
            if node.mean <= number && number < next.mean {
                let between = (weight + next_weight) / 2.0;
                let distance = next.mean - node.mean;
                if distance <= 0.0 {
                    return (before + between) / total;
                }
                // A single number has its whole weight at its mean.
                let (node_half, next_half) = match (node.weight == 1, next.weight == 1) {
                    (true, true) => return (before + 1.0) / total,
                    (true, false) => (0.5, 0.0),
                    (false, true) => (0.0, 0.5),
                    (false, false) => (0.0, 0.0),
                };
                let base = before + weight / 2.0 + node_half;
                let interpolated = (between - node_half - next_half) * (number - node.mean) / distance;
                return (base + interpolated) / total;
            }
            before += weight;
        }
        1.0 - 0.5 / total
    }

    /// The mean of the numbers between two quantiles, the lower first; NaN of an empty digest.
    pub fn trimmed_mean(&self, low: f64, high: f64) -> f64 {
        if self.nodes.is_empty() {
            return f64::NAN;
        }
        if self.nodes.len() == 1 {
            return self.nodes[0].mean;
        }
        let total = self.head.merged_weight as f64;
        let (low, high) = ((total * low).floor(), (total * high).ceil());
        let (mut done, mut sum, mut count) = (0.0, 0.0, 0.0);
        for node in &self.nodes {
            let weight = node.weight as f64;
            let behind_low = weight - (low - done).max(0.0).min(weight);
            let within = (high - done).max(0.0).min(behind_low);
            done += weight;
            sum += node.mean * within;
            count += within;
            if done >= high {
                break;
            }
        }
        sum / count
    }

    /// The rank of a number from below, or from above. The digest is merged.
    pub fn rank(&self, number: f64, from_above: bool) -> f64 {
        let size = self.head.size() as f64;
        let is_outside = |outside: f64, inside: f64| if from_above { inside } else { outside };
        if size == 0.0 {
            return -2.0;
        }
        if number < self.head.min {
            return is_outside(-1.0, size);
        }
        if number > self.head.max {
            return is_outside(size, -1.0);
        }
        let share = self.share_up_to(number) * size;
        match from_above {
            true => (size - share.round()).round(),
            false => half_down(share),
        }
    }

    /// The number at a rank from below, or from above. The digest is merged.
    pub fn by_rank(&self, rank: f64, from_above: bool) -> f64 {
        let size = self.head.size() as f64;
        if size == 0.0 {
            f64::NAN
        } else if rank == 0.0 {
            if from_above { self.head.max } else { self.head.min }
        } else if rank >= size {
            if from_above { f64::NEG_INFINITY } else { f64::INFINITY }
        } else {
            let rank = if from_above { size - rank - 1.0 } else { rank };
            self.quantile(rank / size)
        }
    }
}

/// Rounds to the nearest whole number, and halves towards zero.
fn half_down(number: f64) -> f64 {
    match number.fract().abs() <= 0.5 {
        true => number.trunc(),
        false => number.trunc() + if number.trunc() >= 0.0 { 1.0 } else { -1.0 },
    }
}

/// A walk over the nodes towards rising quantiles.
struct Walk<'d> {
    digest: &'d Digest,
    index: usize,
    /// Weight up to the middle of the node at `index`.
    before: f64,
}

impl<'d> Walk<'d> {
    /// Walks a digest with at least two nodes.
    fn new(digest: &'d Digest) -> Walk<'d> {
        Walk {
            digest,
            index: 0,
            before: digest.nodes[0].weight as f64 / 2.0,
        }
    }

    fn number_at(&mut self, share: f64) -> f64 {
        let nodes = &self.digest.nodes;
        let head = &self.digest.head;
        let (first, last) = (nodes[0], nodes[nodes.len() - 1]);
        let total = head.merged_weight as f64;
        let half_first = first.weight as f64 / 2.0;
        if first.weight > 1 && share < half_first {
            return head.min + (share - 1.0) / (half_first - 1.0) * (first.mean - head.min);
        }
        if share > total - 1.0 {
            return head.max;
        }
        let half_last = last.weight as f64 / 2.0;
        if last.weight > 1 && total - share <= half_last {
            return head.max - (total - share - 1.0) / (half_last - 1.0) * (head.max - last.mean);
        }
        while self.index + 1 < nodes.len() {
            let (node, next) = (nodes[self.index], nodes[self.index + 1]);
            let between = (node.weight as f64 + next.weight as f64) / 2.0;
            if self.before + between > share {
                let (mut from_node, mut to_next) = (share - self.before, self.before + between - share);
                if node.weight == 1 {
                    if from_node < 0.5 {
                        return node.mean;
                    }
                    from_node -= 0.5;
                }
                if next.weight == 1 {
                    if to_next <= 0.5 {
                        return next.mean;
                    }
                    to_next -= 0.5;
                }
                return average(node.mean, to_next, next.mean, from_node);
            }
            self.before += between;
            self.index += 1;
        }
        let from_last = share - total - half_last;
        average(last.mean, from_last, head.max, half_last - from_last)
    }
}

/// The weighted average of two numbers, which is between them.
fn average(first: f64, weight: f64, other: f64, other_weight: f64) -> f64 {
    let (low, high) = if first <= other { (first, other) } else { (other, first) };
    let sum = match first <= other {
        true => first * weight + other * other_weight,
        false => other * other_weight + first * weight,
    };
    let mean = sum / (weight + other_weight);
    let mean = if mean < high { mean } else { high };
    if low > mean { low } else { mean }
}

/// Sorts by mean.
fn sort(nodes: &mut [Node]) {
    if nodes.len() > SORTED_ALIKE_MAX {
        nodes.sort_by(|node, other| node.mean.total_cmp(&other.mean));
        return;
    }
    let mut ranges = vec![(0, nodes.len())];
    while let Some((start, end)) = ranges.pop() {
        let part = &mut nodes[start..end];
        match part.len() {
            0 | 1 => {}
            2 if part[0].mean > part[1].mean => part.swap(0, 1),
            2 => {}
            _ => {
                let pivot = start + partition(part);
                ranges.push((start, pivot));
                ranges.push((pivot + 1, end));
            }
        }
    }
}

/// Moves the smaller nodes before the middle one, and returns its place then.
fn partition(nodes: &mut [Node]) -> usize {
    let last = nodes.len() - 1;
    nodes.swap(last / 2, last);
    let pivot = nodes[last].mean;
    let mut smaller = 0;
    for index in 0..last {
        if nodes[index].mean < pivot {
            nodes.swap(smaller, index);
            smaller += 1;
        }
    }
    nodes.swap(smaller, last);
    smaller
}
