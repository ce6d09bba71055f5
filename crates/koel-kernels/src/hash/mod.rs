//! Hash functions, the same on every device.
//!
//! [`mix`](mod@mix) holds bijective mixers of whole words, which maps, sets and partition passes
//! use. The *families* are for the published tables, which draw several functions and redraw them
//! if a build fails. A family is one file and one line in the list below: it hashes a key with
//! constants derived from a seed.
mod linear;
pub mod mix;
mod mixed;
mod modulo;
mod polynomial;
mod xor;

use koel_simt::{Shared, SharedMem, Thread, unroll};
use mix::{mix, splitmix_at};

/// Maximum number of hash functions that a table draws.
pub const MAX_FUNCTIONS: u32 = 5;

/// Source of a function's constants. A GPU recomputes them whenever it needs them, which costs some
/// forty instructions and no memory, or each block computes them once and keeps them in [shared
/// memory](InShared). A CPU [binds](Functions::bind) them.
#[derive(Clone, Copy)]
struct Source {
    seed: u64,
    /// Index of the function among those of the table.
    function: u32,
}
impl Source {
    /// Returns random word `i` (below 8).
    #[inline(always)]
    fn word(self, i: u32) -> u64 {
        splitmix_at(self.seed, self.function * 8 + i)
    }
    /// Returns random 32-bit word `i` (below 8), which is cheaper.
    #[inline(always)]
    fn word32(self, i: u32) -> u32 {
        let step = (self.function * 8 + i + 1).wrapping_mul(0x9E37_79B1);
        mix((self.seed as u32).wrapping_add(step)) ^ (self.seed >> 32) as u32
    }
}
/// Constants of one function. A family uses as many as it needs.
type Constants = [u64; CONSTANTS];
const CONSTANTS: usize = 5;

/// Returns the high word of the product. Maps a full-range hash to `0..n` without a division.
#[inline(always)]
pub fn mulhi(a: u32, b: u32) -> u32 {
    koel_simt::mul_hi(a, b)
}
macro_rules! families { ($(
    $(#[$doc:meta])*
    $name:ident = $code:literal, $text:literal, $family:ident $(<$p:literal>)?;
)*) => {
    /// A family of hash functions from 32-bit keys to slots.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[repr(u32)]
    pub enum Family { $($(#[$doc])* $name = $code),* }
    impl Family {
        /// Every family.
        pub const ALL: &[Family] = &[$(Family::$name),*];
        /// Returns a description for reports.
        pub fn describe(self) -> &'static str {
            match self { $(Family::$name => $text),* }
        }
        /// Returns the prime modulo which equal keys share every slot, whatever the constants are.
        pub fn prime(self) -> Option<u32> {
            match self {
                Family::Linear2011 => Some(334_214_459),
                Family::Linear2009 => Some(1_900_813),
                _ => None,
            }
        }
    }
    /// Returns the constants of a function of the family with this code.
    #[inline(always)]
    fn constants(family: u32, source: Source) -> Constants {
        match family { $($code => $family::constants$(::<$p>)?(source),)* _ => [0; 5] }
    }
    /// Returns the slot of a key, below `slots`, by the family with this code.
    #[inline(always)]
    fn slot(family: u32, key: u32, constants: &Constants, slots: u32) -> u32 {
        match family { $($code => $family::slot$(::<$p>)?(key, constants, slots),)* _ => 0 }
    }
} }
families! {
    /// Bijective mixing of the key with random constants. The default: the hash range covers all
    /// keys, so no two keys are bound to share every slot.
    Mixed = 0, "bijective mixing", mixed;
    /// `((a k + b) mod 334214459) mod slots`, from the 2011 paper. Keys that are equal modulo the
    /// prime share every slot.
    Linear2011 = 1, "linear modulo 334214459 (2011)", linear<334_214_459>;
    /// `((a k + b) mod 1900813) mod slots`, from the 2009 paper. Keys that are equal modulo the
    /// prime share every slot.
    Linear2009 = 2, "linear modulo 1900813 (2009)", linear<1_900_813>;
    /// `(((a xor k) + b) mod 4294967291) mod slots`, from the 2011 paper's text and Zachmann's
    /// lecture.
    Xor = 3, "xor modulo 4294967291", xor;
    /// A polynomial of degree 1 modulo 2^61 - 1: 2-wise independent.
    Polynomial1 = 4, "polynomial of degree 1 modulo 2^61 - 1", polynomial<1>;
    /// A polynomial of degree 2 modulo 2^61 - 1: 3-wise independent.
    Polynomial2 = 5, "polynomial of degree 2 modulo 2^61 - 1", polynomial<2>;
    /// A polynomial of degree 3 modulo 2^61 - 1: 4-wise independent.
    Polynomial3 = 6, "polynomial of degree 3 modulo 2^61 - 1", polynomial<3>;
    /// A polynomial of degree 4 modulo 2^61 - 1: 5-wise independent.
    Polynomial4 = 7, "polynomial of degree 4 modulo 2^61 - 1", polynomial<4>;
    /// `k mod slots`, which the 2009 paper tries first to spread keys over buckets. Ignores the
    /// seed.
    Modulo = 8, "key modulo slots", modulo;
}

/// One to five hash functions of one family, from keys to slots: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Functions {
    seed: u64,
    family: u32,
    count: u32,
    slots: u32,
    /// Makes the struct free of padding.
    unused: u32,
}
impl Functions {
    /// Draws `count` functions (at most [`MAX_FUNCTIONS`]) from keys to `0..slots`. Equal seeds
    /// give equal functions.
    #[inline(always)]
    pub fn new(family: Family, count: u32, slots: u32, seed: u64) -> Functions {
        Functions { seed, family: family as u32, count: count.min(MAX_FUNCTIONS), slots, unused: 0 }
    }
    /// Returns whether the functions are of this family.
    #[inline(always)]
    pub fn are(&self, family: Family) -> bool {
        self.family == family as u32
    }
    /// Returns the number of functions.
    #[inline(always)]
    pub fn count(&self) -> u32 {
        self.count
    }
    /// Returns the number of slots.
    #[inline(always)]
    pub fn slots(&self) -> u32 {
        self.slots
    }
    /// Returns the slot of a key by function `f`.
    #[inline(always)]
    pub fn slot(&self, f: u32, key: u32) -> u32 {
        let source = Source { seed: self.seed, function: f };
        slot(self.family, key, &constants(self.family, source), self.slots)
    }
    /// Returns function `f` with its constants precomputed: cheaper where memory holds them, as on
    /// a CPU.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn bind(&self, f: u32) -> impl Fn(u32) -> u32 + Copy + use<> {
        let (family, slots) = (self.family, self.slots);
        let constants = constants(family, Source { seed: self.seed, function: f });
        move |key| slot(family, key, &constants, slots)
    }
    /// Returns the functions of another seed, for tables whose parts each have their own functions.
    #[inline(always)]
    pub fn with_seed(self, seed: u32) -> Functions {
        Functions { seed: seed as u64, ..self }
    }
    /// Returns the functions to another number of slots, for tables whose parts differ in size.
    #[inline(always)]
    pub fn with_slots(self, slots: u32) -> Functions {
        Functions { slots, ..self }
    }
}

/// Functions whose constants are in a block's shared memory, which halves the instructions per
/// slot.
#[derive(Clone, Copy)]
pub struct InShared {
    functions: Functions,
    constants: Shared<u64>,
}
impl InShared {
    /// Bytes of shared memory.
    pub const BYTES: u32 = MAX_FUNCTIONS * CONSTANTS as u32 * 8;
    /// Computes the constants. All threads of a block call it, at least [`MAX_FUNCTIONS`], and a
    /// barrier must follow before the functions are used.
    #[inline(always)]
    pub fn new(t: Thread, shared: &mut SharedMem, functions: Functions) -> InShared {
        let constants = shared.array::<u64>(MAX_FUNCTIONS * CONSTANTS as u32);
        InShared { functions, constants }.with(t, functions)
    }
    /// Replaces the functions in the same memory once no thread uses them any more. Otherwise like
    /// [`new`](Self::new).
    #[inline(always)]
    pub fn with(self, t: Thread, functions: Functions) -> InShared {
        let function = t.id();
        if function < functions.count {
            let words =
                self::constants(functions.family, Source { seed: functions.seed, function });
            unroll::<CONSTANTS>(|i| {
                self.constants.store(function * CONSTANTS as u32 + i as u32, words[i])
            });
        }
        InShared { functions, ..self }
    }
    /// Returns the slot of a key by function `f`.
    #[inline(always)]
    pub fn slot(&self, f: u32, key: u32) -> u32 {
        slot(self.functions.family, key, &self.constants(f), self.functions.slots)
    }
    /// Returns the same slot if the family is known to be [`Family::Mixed`], with a third of the
    /// instructions.
    #[inline(always)]
    pub fn mixed_slot(&self, f: u32, key: u32) -> u32 {
        mixed::slot(key, &self.constants(f), self.functions.slots)
    }
    #[inline(always)]
    fn constants(&self, f: u32) -> Constants {
        let mut constants = [0; CONSTANTS];
        unroll::<CONSTANTS>(|i| {
            constants[i] = self.constants.load(f * CONSTANTS as u32 + i as u32)
        });
        constants
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every family spreads keys at least as evenly as a random function: chi-square over 256
    /// slots.
    #[test]
    fn families_spread() {
        for &family in Family::ALL {
            for keys in [|i: u32| i, |i: u32| i.wrapping_mul(0x9E37_79B1)] {
                let f = Functions::new(family, 1, 256, 7);
                let mut count = [0f64; 256];
                (0..65_536).for_each(|i| count[f.slot(0, keys(i)) as usize] += 1.0);
                let chi2 = count.iter().map(|c| (c - 256.0) * (c - 256.0) / 256.0).sum::<f64>();
                // 255 degrees of freedom: mean 255, standard deviation 22.6.
                assert!(chi2 < 255.0 + 8.0 * 22.6, "{family:?}: {chi2}");
            }
        }
    }
    #[test]
    fn slots_are_in_range_and_functions_differ() {
        for &family in Family::ALL {
            for slots in [1, 2, 3, 191, 1 << 20, u32::MAX] {
                let f = Functions::new(family, 5, slots, 3);
                for key in [0, 1, 2, 334_214_459, 1_900_813, u32::MAX - 5, u32::MAX] {
                    (0..5)
                        .for_each(|j| assert!(f.slot(j, key) < slots, "{family:?} {slots} {key}"));
                }
            }
            let f = Functions::new(family, 5, 1 << 20, 4);
            let differ =
                (0..1000u32).filter(|&k| (1..5).all(|j| f.slot(j, k) != f.slot(0, k))).count();
            assert!(family == Family::Modulo || differ > 950, "{family:?}: {differ}");
        }
    }
    #[test]
    fn bound_functions_are_the_same() {
        for &family in Family::ALL {
            let f = Functions::new(family, 5, 1_000_003, 8);
            (0..5).for_each(|j| {
                (0..100).for_each(|k| assert_eq!(f.bind(j)(mix(k)), f.slot(j, mix(k))))
            });
        }
    }
    #[test]
    fn seeds_make_other_functions() {
        for &family in Family::ALL.iter().filter(|&&f| f != Family::Modulo) {
            let [a, b] = [1 << 32, 1].map(|seed| Functions::new(family, 1, 1 << 20, seed));
            assert!((0..1000).filter(|&k| a.slot(0, k) == b.slot(0, k)).count() < 10, "{family:?}");
        }
    }
    /// The published primes are small, which is a pitfall.
    #[test]
    fn keys_equal_modulo_the_prime_collide_in_the_linear_families_only() {
        for (family, p, collides) in [
            (Family::Linear2011, 334_214_459, true),
            (Family::Linear2009, 1_900_813, true),
            (Family::Mixed, 334_214_459, false),
            (Family::Polynomial1, 334_214_459, false),
        ] {
            let f = Functions::new(family, 4, 1 << 24, 5);
            let same = (0..4).all(|j| f.slot(j, 77) == f.slot(j, 77 + p));
            assert_eq!(same, collides, "{family:?}");
        }
    }
    #[test]
    fn polynomials_match_big_integers() {
        let p = (1u128 << 61) - 1;
        for (family, degree) in [(Family::Polynomial1, 1), (Family::Polynomial4, 4)] {
            let f = Functions::new(family, 1, 1_000_003, 6);
            let source = Source { seed: 6, function: 0 };
            for key in [0u32, 1, 5, 1 << 31, u32::MAX] {
                let h = (0..=degree)
                    .rev()
                    .fold(0, |h, i| (h * key as u128 + (source.word(i) >> 3) as u128) % p);
                assert_eq!(f.slot(0, key) as u128, (h * 1_000_003) >> 61);
            }
        }
    }
}
