//! The form in which a query travels: its key, alone or with its index.
use crate::table::layout::{Layout, Narrow, Number, Shape, Wide};
use koel_simt::{Buf, In, Scalar, U64x2, Word};

/// A layout whose keys are sent to their partitions.
pub trait Routed: Layout<Key: Carried> {
    /// Returns what is sent in place of a key: a bijection of it, which is the mixed key unless
    /// that is wider.
    #[inline(always)]
    fn sent(seed: u32, key: Self::Key) -> Self::Key {
        if size_of::<Self::Mixed>() == size_of::<Self::Key>() {
            Self::Key::narrowed(Self::mixed(seed, key).widened())
        } else {
            key
        }
    }
    /// Returns the mixed key of what was sent.
    #[inline(always)]
    fn mixed_of(seed: u32, sent: Self::Key) -> Self::Mixed {
        if size_of::<Self::Mixed>() == size_of::<Self::Key>() {
            Self::Mixed::narrowed(sent.widened())
        } else {
            Self::mixed(seed, sent)
        }
    }
    /// Returns the key of what was sent.
    #[inline(always)]
    fn key_of(seed: u32, sent: Self::Key) -> Self::Key {
        if size_of::<Self::Mixed>() == size_of::<Self::Key>() {
            Self::unmixed(seed, Self::Mixed::narrowed(sent.widened()))
        } else {
            sent
        }
    }
    /// Returns the partition of what was sent.
    #[inline(always)]
    fn partition_of(seed: u32, sent: Self::Key, shape: Shape) -> u32 {
        shape.partition(Self::hash(Self::mixed_of(seed, sent)))
    }
}

impl Routed for Narrow {}

impl<K: Carried, V: Number> Routed for Wide<K, V> {}

/// Type that is sent: `u32` or `u64`.
pub trait Carried: Number {
    /// The key with the index of its query.
    type Numbered: Word;
    /// Attaches an index.
    fn numbered(self, i: u32) -> Self::Numbered;
    /// Separates the key from the index.
    fn split(numbered: Self::Numbered) -> (Self, u32);
    /// Views words as an array of keys with indices. The array begins on a multiple of 16 bytes.
    fn array(words: In<u64>) -> In<Self::Numbered>;
    /// Views words as a writable array.
    fn array_mut(words: Buf<u64>) -> Buf<Self::Numbered>;
}

impl Carried for u32 {
    type Numbered = u64;
    #[inline(always)]
    fn numbered(self, i: u32) -> u64 {
        (i as u64) << 32 | self as u64
    }
    #[inline(always)]
    fn split(numbered: u64) -> (u32, u32) {
        (numbered as u32, (numbered >> 32) as u32)
    }
    #[inline(always)]
    fn array(words: In<u64>) -> In<u64> {
        words
    }
    #[inline(always)]
    fn array_mut(words: Buf<u64>) -> Buf<u64> {
        words
    }
}

impl Carried for u64 {
    type Numbered = U64x2;
    #[inline(always)]
    fn numbered(self, i: u32) -> U64x2 {
        U64x2([self, i as u64])
    }
    #[inline(always)]
    fn split(U64x2([key, i]): U64x2) -> (u64, u32) {
        (key, i as u32)
    }
    #[inline(always)]
    fn array(words: In<u64>) -> In<U64x2> {
        words.x2()
    }
    #[inline(always)]
    fn array_mut(words: Buf<u64>) -> Buf<U64x2> {
        words.x2()
    }
}

/// Form in which queries travel.
pub trait Form<K: Carried>: 'static {
    /// A query.
    type Query: Word;
    /// Element type of query arrays.
    type Element: Scalar;
    /// Elements per query.
    const ELEMENTS: usize = size_of::<Self::Query>() / size_of::<Self::Element>();
    /// Makes query `i` of `sent`, the key as it is sent.
    fn query(sent: K, i: u32) -> Self::Query;
    /// Returns what was sent and the index of the query; 0 if the index is not known.
    fn split(query: Self::Query) -> (K, u32);
    /// Views elements as an array of queries. The array begins on a multiple of 16 bytes.
    fn array(elements: In<Self::Element>) -> In<Self::Query>;
    /// Views elements as a writable array of queries.
    fn array_mut(elements: Buf<Self::Element>) -> Buf<Self::Query>;
}

/// The key as it is sent, and nothing else.
pub struct Alone;

impl<K: Carried> Form<K> for Alone {
    type Query = K;
    type Element = K;
    #[inline(always)]
    fn query(sent: K, _: u32) -> K {
        sent
    }
    #[inline(always)]
    fn split(query: K) -> (K, u32) {
        (query, 0)
    }
    #[inline(always)]
    fn array(elements: In<K>) -> In<K> {
        elements
    }
    #[inline(always)]
    fn array_mut(elements: Buf<K>) -> Buf<K> {
        elements
    }
}

/// The key as it is sent, and the index of the query.
pub struct Numbered;

impl<K: Carried> Form<K> for Numbered {
    type Query = K::Numbered;
    type Element = u64;
    #[inline(always)]
    fn query(sent: K, i: u32) -> Self::Query {
        sent.numbered(i)
    }
    #[inline(always)]
    fn split(query: Self::Query) -> (K, u32) {
        K::split(query)
    }
    #[inline(always)]
    fn array(elements: In<u64>) -> In<Self::Query> {
        K::array(elements)
    }
    #[inline(always)]
    fn array_mut(elements: Buf<u64>) -> Buf<Self::Query> {
        K::array_mut(elements)
    }
}
