//! Keys that are equal modulo a prime, which linear functions modulo that prime cannot separate.
use rayon::prelude::*;

/// Returns the number of residue classes modulo `modulus` that have 1, 2, ... of the distinct keys;
/// the number at index 0 is 0.
pub fn class_sizes(mut keys: Vec<u32>, modulus: u64) -> Vec<usize> {
    // A residue is at most as large as its key.
    keys.par_iter_mut().for_each(|key| *key = (u64::from(*key) % modulus) as u32);
    keys.par_sort_unstable();
    let mut sizes = vec![0];
    for class in keys.chunk_by(|a, b| a == b) {
        sizes.resize(sizes.len().max(class.len() + 1), 0);
        sizes[class.len()] += 1;
    }
    sizes
}

/// Returns how many of these classes have more than `most` keys. The theory is
/// [`theory::crowded_classes`](crate::theory::crowded_classes).
pub fn crowded(sizes: &[usize], most: u32) -> usize {
    sizes.iter().skip(most as usize + 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_counted_by_size() {
        let keys = vec![1, 8, 15, 22, 2, 9, 3, 5, 12, 19];
        // Modulo 7: four times 1, twice 2, once 3, three times 5.
        let sizes = class_sizes(keys.clone(), 7);
        assert_eq!(sizes, [0, 1, 1, 1, 1]);
        assert_eq!([0, 1, 3, 4, 9].map(|most| crowded(&sizes, most)), [4, 3, 1, 0, 0]);
        assert_eq!(class_sizes(keys, 1 << 33), [0, 10]);
        assert_eq!(class_sizes(vec![], 7), [0]);
    }
}
