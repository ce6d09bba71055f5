//! Options of the published method.
use crate::basis::BasisRules;
use koel_vision::{Features, Freedom, PointRules};

/// Lookup method for a cell's entries and, with [`PaperOptions::two_way_index`], for the number of
/// a basis. Table 1 of the 2009 paper compares hashing with searching.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lookup {
    /// Hash tables: [`koel_classic::SingleLevelMulti`], and [`koel::Map`] for the numbers.
    #[default]
    Hash,
    /// The same with the multi-value table of the 2009 paper, [`koel_classic::TwoLevelMulti`].
    TwoLevel,
    /// Binary search in sorted lists.
    BinarySearch,
    /// Nearest cell in a kd-tree of the cells that have entries, on the host; hash tables for the
    /// numbers. The lecture's alternative to the table.
    KdTree,
    /// Comparison with every entry, on the host; hash tables for the numbers. Takes minutes with
    /// the default options.
    BruteForce,
}
impl std::str::FromStr for Lookup {
    type Err = String;
    fn from_str(text: &str) -> Result<Lookup, String> {
        match text {
            "hash" => Ok(Lookup::Hash),
            "two-level" => Ok(Lookup::TwoLevel),
            "search" => Ok(Lookup::BinarySearch),
            "kd-tree" => Ok(Lookup::KdTree),
            "brute" => Ok(Lookup::BruteForce),
            _ => Err("expected hash, two-level, search, kd-tree or brute".into()),
        }
    }
}

/// Partition of the coordinate plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Partition {
    /// Squares.
    #[default]
    Uniform,
    /// Rehashing through a transfer function: strips along both axes with equal numbers of points.
    Transfer,
    /// Grid of cells trained on the distribution of the points (Kohonen's self-organizing map).
    Elastic,
}
impl std::str::FromStr for Partition {
    type Err = String;
    fn from_str(text: &str) -> Result<Partition, String> {
        match text {
            "uniform" => Ok(Partition::Uniform),
            "transfer" => Ok(Partition::Transfer),
            "elastic" => Ok(Partition::Elastic),
            _ => Err("expected uniform, transfer or elastic".into()),
        }
    }
}

/// Weights of votes: the lecture's three observations about noise. Without any, each vote counts 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Weights {
    /// The longer the basis, the less an error of its points matters.
    pub by_length: bool,
    /// The closer a point is to the basis, the less errors of the basis matter.
    pub by_distance: bool,
    /// A cell with many entries carries little information.
    pub by_density: bool,
}

koel::option_setters! { Weights:
    by_length by with_by_length: bool;
    by_distance by with_by_distance: bool;
    by_density by with_by_density: bool;
}

/// Options of the published method. Every measure against noise is a switch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PaperOptions {
    /// Allowed maps, which determine the type of basis.
    pub freedom: Freedom,
    /// Points of images.
    pub features: Features,
    /// Factors by which model and scene are shrunk, tried in turn until the model is found.
    pub sizes: Vec<(f32, f32)>,
    /// Maximum number of points of the model and of the scene, strongest first.
    pub points: (usize, usize),
    /// Minimum distance between edges, in pixels.
    pub apart: f32,
    /// Selection rules for bases.
    pub rules: BasisRules,
    /// Maximum number of bases of the model and of the scene.
    pub bases: (usize, usize),
    /// Maximum coordinate of points that enter and vote, in lengths of the basis.
    pub reach: f32,
    /// Lookup method of the table.
    pub lookup: Lookup,
    /// Name bases in the table by their points, as published. Each vote then looks up the number of
    /// its basis in an index.
    pub two_way_index: bool,
    /// Partition of the coordinate plane into cells.
    pub partition: Partition,
    /// Width of uniform cells in lengths of the basis; for rigid maps, in units of 60 pixels.
    pub cell: f32,
    /// Enter each model point into the cells around its own too: nine times the memory.
    pub neighbour_entries: bool,
    /// Let each scene point vote in the cells around its own too: nine times the lookups.
    pub neighbour_votes: bool,
    /// Weights of votes.
    pub weights: Weights,
    /// Verify only pairs of bases with more votes than chance explains.
    pub threshold: bool,
    /// Maximum number of pairs that are verified for each basis of the scene.
    pub candidates: usize,
    /// Verify and refine by all edges, in addition to the points.
    pub outlines: bool,
    /// Maximum distance of an inlier from a scene point, in pixels.
    pub inlier: f32,
    /// Probability that noise alone is accepted.
    pub false_alarm: f64,
    /// Seed of all random choices.
    pub seed: u64,
}
impl Default for PaperOptions {
    /// Returns options that find models in photographs: corners, bases of close points, and
    /// candidates of every basis of the scene.
    fn default() -> PaperOptions {
        PaperOptions {
            freedom: Freedom::Similarity,
            features: Features::Corners,
            sizes: vec![(1.0, 1.0), (1.4, 1.0), (2.0, 1.0), (2.8, 1.0), (1.0, 1.4), (1.0, 2.0)],
            points: (400, 1500),
            apart: 8.0,
            rules: BasisRules::default(),
            bases: (10_000, 2048),
            reach: 2.0,
            lookup: Lookup::Hash,
            two_way_index: false,
            partition: Partition::Uniform,
            cell: 0.1,
            neighbour_entries: false,
            neighbour_votes: false,
            weights: Weights::default(),
            threshold: false,
            candidates: 20,
            outlines: true,
            inlier: 3.0,
            false_alarm: 1e-3,
            seed: 1,
        }
    }
}
impl PaperOptions {
    /// Returns the options as published: 200 edges, a third of all pairs at a distance of 40 to 250
    /// pixels, up to 1,500 of the model and 1,500 of the scene, and a threshold of votes.
    pub fn published() -> PaperOptions {
        PaperOptions {
            features: Features::Edges,
            sizes: vec![(1.0, 1.0)],
            points: (200, 200),
            rules: BasisRules { lengths: (40.0, 250.0), thinnest: 0.4, ..BasisRules::default() },
            bases: (1500, 1500),
            reach: f32::MAX,
            two_way_index: true,
            threshold: true,
            candidates: 2000,
            outlines: false,
            ..PaperOptions::default()
        }
    }
    /// Returns the rules by which the points of an image are selected.
    pub fn point_rules(&self) -> PointRules {
        PointRules::default()
            .with_features(self.features)
            .with_most(self.points)
            .with_apart(self.apart)
            .with_outlines(self.outlines)
    }
}

koel::option_setters! { PaperOptions:
    freedom by with_freedom: Freedom;
    features by with_features: Features;
    sizes by with_sizes: Vec<(f32, f32)>;
    points by with_points: (usize, usize);
    apart by with_apart: f32;
    rules by with_rules: BasisRules;
    bases by with_bases: (usize, usize);
    reach by with_reach: f32;
    lookup by with_lookup: Lookup;
    two_way_index by with_two_way_index: bool;
    partition by with_partition: Partition;
    cell by with_cell: f32;
    neighbour_entries by with_neighbour_entries: bool;
    neighbour_votes by with_neighbour_votes: bool;
    weights by with_weights: Weights;
    threshold by with_threshold: bool;
    candidates by with_candidates: usize;
    outlines by with_outlines: bool;
    inlier by with_inlier: f32;
    false_alarm by with_false_alarm: f64;
    seed by with_seed: u64;
}
