//! Outcome of the placement of pairs, and pairs that no bucket takes: copies, and those with the
//! ambiguous key.
use super::buckets::put;
use super::stash::{pair_at, put_pair};
use crate::duplicates::Duplicates;
use koel_kernels::table::layout::Layout;

/// Outcome of the placement of pairs.
pub(super) struct Outcome<L: Layout> {
    /// Pairs for which neither bucket had room.
    pub stashed: Vec<L::Pair>,
    /// Number of pairs dropped because another has the same key.
    pub duplicates: u64,
    /// Number of pairs moved to their other bucket.
    pub evictions: u64,
    /// Value of the ambiguous key.
    pub held: Option<L::Value>,
    /// Lowest bin with equal keys, and one such mixed key.
    pub repeated: Option<(usize, L::Mixed)>,
}
impl<L: Layout> Outcome<L> {
    /// Returns an empty outcome that reuses this memory.
    pub(super) fn of(mut stashed: Vec<L::Pair>) -> Outcome<L> {
        stashed.clear();
        Outcome { stashed, duplicates: 0, evictions: 0, held: None, repeated: None }
    }
}

/// Handles the pairs with the ambiguous key; the others move up. Returns the number of their words.
#[cold]
pub(super) fn hold_all<L: Layout>(
    pairs: &mut [u64],
    policy: Duplicates,
    bin: usize,
    outcome: &mut Outcome<L>,
) -> usize {
    let mut kept = 0;
    for i in 0..pairs.len() / L::SLOT_WORDS {
        let pair = pair_at::<L>(pairs, i);
        if L::key(pair) == L::AMBIGUOUS {
            hold(pair, policy, bin, outcome);
        } else {
            put_pair::<L>(pairs, kept, pair);
            kept += 1;
        }
    }
    kept * L::SLOT_WORDS
}

/// Handles a pair with the ambiguous key.
#[cold]
fn hold<L: Layout>(pair: L::Pair, policy: Duplicates, bin: usize, outcome: &mut Outcome<L>) {
    if outcome.held.is_none() || repeats(L::AMBIGUOUS, policy, bin, outcome) {
        outcome.held = Some(L::value(pair));
    }
}

/// Handles a pair with the ambiguous key, or a copy that is rejected.
#[cold]
pub(super) fn hold_or_reject<L: Layout>(
    pair: L::Pair,
    policy: Duplicates,
    bin: usize,
    outcome: &mut Outcome<L>,
) {
    if L::key(pair) == L::AMBIGUOUS {
        hold(pair, policy, bin, outcome);
    } else {
        repeats(L::key(pair), policy, bin, outcome);
    }
}

/// Handles a pair with the same key as a stored one.
#[cold]
pub(super) fn resolve<L: Layout>(
    buckets: &mut [u64],
    place: usize,
    slot: usize,
    pair: L::Pair,
    policy: Duplicates,
    bin: usize,
    outcome: &mut Outcome<L>,
) {
    if repeats(L::key(pair), policy, bin, outcome) {
        put::<L>(buckets, place, slot, pair);
    }
}
/// Records a repeated key; returns whether the new pair replaces the stored one.
pub(super) fn repeats<L: Layout>(
    mixed: L::Mixed,
    policy: Duplicates,
    bin: usize,
    outcome: &mut Outcome<L>,
) -> bool {
    outcome.duplicates += 1;
    if policy == Duplicates::Reject && outcome.repeated.is_none_or(|(lowest, _)| bin < lowest) {
        outcome.repeated = Some((bin, mixed));
    }
    matches!(policy, Duplicates::KeepLast | Duplicates::Unchecked)
}
