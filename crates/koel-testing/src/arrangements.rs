//! Arrangements of keys: which pairs of an input share a key, and where they lie.
use koel_kernels::hash::mix::splitmix_at;
use rayon::prelude::*;

/// Returns the rank of the key of each of `n` pairs, or `None` if there is no such arrangement.
/// Equal ranks stand for equal keys. `key` returns the key of a rank.
///
/// * `unique`: all keys differ.
/// * `share<S>`: a share S of the pairs has the key of any other pair.
/// * `near<D>x<S>`: a share S of the pairs has the key of the pair D places before.
/// * `runs<L>`: runs of L equal keys.
/// * `blocks<B>`: each batch of B pairs comes twice in succession.
/// * `concat<C>`: C copies of one input. `twice` is `concat2`.
/// * `sorted<S>`, `reversed<S>`: sorted keys, a share S of which repeat their neighbour.
/// * `zipf`: Zipf's law. `hot`: a tenth of the pairs has one key. `equal`: all have.
pub fn ranks<K: Ord + Send>(
    n: usize,
    name: &str,
    key: impl Fn(u32) -> K + Sync,
) -> Option<Vec<u32>> {
    let unit = |i: usize| (splitmix_at(0, i as u32) >> 11) as f64 / (1u64 << 53) as f64;
    let any = |i: usize| (splitmix_at(1, i as u32) % n as u64) as u32;
    let near = |distance: usize, share: f64, mut i: usize| {
        while i >= distance && unit(i) < share {
            i -= distance;
        }
        i as u32
    };
    let split = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (kind, numbers) = name.split_at(split);
    let (first, second) = numbers.split_once('x').unwrap_or((numbers, ""));
    let count = || first.parse::<usize>().ok().filter(|&x| x > 0);
    let share = |text: &str| text.parse::<f64>().ok();
    let rank: Box<dyn Fn(usize) -> u32 + Sync> = match kind {
        "unique" => Box::new(|i| i as u32),
        "share" => {
            let share = share(first)?;
            Box::new(move |i| if unit(i) < share { any(i) } else { i as u32 })
        }
        "near" => {
            let (distance, share) = (count()?, share(second)?);
            Box::new(move |i| near(distance, share, i))
        }
        "runs" => {
            let length = count()?;
            Box::new(move |i| (i / length) as u32)
        }
        "blocks" => {
            let block = count()?;
            Box::new(move |i| (i / (2 * block) * block + i % block) as u32)
        }
        "concat" => {
            let each = n.div_ceil(count()?).max(1);
            Box::new(move |i| (i % each) as u32)
        }
        "twice" => Box::new(move |i| (i % n.div_ceil(2)) as u32),
        "sorted" | "reversed" => {
            let share = share(first)?;
            Box::new(move |i| near(1, share, i))
        }
        "zipf" => Box::new(move |i| ((n as f64).ln() * unit(i)).exp() as u32 - 1),
        "hot" => Box::new(move |i| if unit(i) < 0.1 { 0 } else { i as u32 }),
        "equal" => Box::new(|_| 7.min(n as u32 - 1)),
        _ => return None,
    };
    let mut ranks = (0..n).into_par_iter().map(&*rank).collect::<Vec<_>>();
    if matches!(kind, "sorted" | "reversed") {
        ranks.par_sort_by_cached_key(|&rank| key(rank));
        if kind == "reversed" {
            ranks.reverse();
        }
    }
    Some(ranks)
}
