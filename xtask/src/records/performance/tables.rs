//! The tables, and what each cell asks the records for.
use super::{Goal, Table};

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "machines",
        first: "limit",
        columns: &[("H200", "machine=h200"), ("H100", "machine=h100")],
        rows: &[
            ("copy, TB/s", "record=map op=copy value=bytes_per_s/1e12"),
            (
                "random 32-byte reads from 168 MB, G/s",
                "record=map op=find_present n=2^24 load=0.8 value=limit_gps",
            ),
            ("from 1.3 GB", "record=map op=find_present n=2^27 load=0.8 value=limit_gps"),
        ],
        spread: None,
    },
    Table {
        name: "builds",
        first: "Builds of distinct keys, G pairs/s",
        columns: &[
            ("2^16", "n=2^16"),
            ("2^18", "n=2^18"),
            ("2^20", "n=2^20"),
            ("2^22", "n=2^22"),
            ("2^24", "n=2^24"),
            ("2^27", "n=2^27"),
        ],
        rows: &[
            (
                "H200, Unchecked, load 0.8",
                "machine=h200 record=map|map-builds op=build keys=unique value=gps bits=32 policy=unchecked load=0.8",
            ),
            (
                "H200, Unchecked, load 0.9",
                "machine=h200 record=map|map-builds op=build keys=unique value=gps bits=32 policy=unchecked load=0.9",
            ),
            (
                "H200, Unchecked, load 0.95",
                "machine=h200 record=map|map-builds op=build keys=unique value=gps bits=32 policy=unchecked load=0.95",
            ),
            (
                "H200, KeepLast, load 0.8",
                "machine=h200 record=map|map-builds op=build keys=unique value=gps bits=32 policy=keep_last load=0.8",
            ),
            (
                "H200, KeepLast, load 0.9",
                "machine=h200 record=map|map-builds op=build keys=unique value=gps bits=32 policy=keep_last load=0.9",
            ),
            (
                "H200, KeepLast, load 0.95",
                "machine=h200 record=map|map-builds op=build keys=unique value=gps bits=32 policy=keep_last load=0.95",
            ),
            (
                "H200, Unchecked, 64-bit keys and values, load 0.8",
                "machine=h200 record=map-64|map op=build keys=unique value=gps bits=64 policy=unchecked load=0.8",
            ),
            (
                "H200, KeepLast, 64-bit keys and values, load 0.8",
                "machine=h200 record=map-64|map op=build keys=unique value=gps bits=64 policy=keep_last load=0.8",
            ),
            (
                "H100, Unchecked, load 0.8",
                "machine=h100 record=map|map-builds op=build keys=unique value=gps bits=32 policy=unchecked load=0.8",
            ),
            (
                "H100, Unchecked, load 0.9",
                "machine=h100 record=map|map-builds op=build keys=unique value=gps bits=32 policy=unchecked load=0.9",
            ),
            (
                "H100, Unchecked, load 0.95",
                "machine=h100 record=map|map-builds op=build keys=unique value=gps bits=32 policy=unchecked load=0.95",
            ),
            (
                "H100, KeepLast, load 0.8",
                "machine=h100 record=map|map-builds op=build keys=unique value=gps bits=32 policy=keep_last load=0.8",
            ),
            (
                "H100, KeepLast, load 0.9",
                "machine=h100 record=map|map-builds op=build keys=unique value=gps bits=32 policy=keep_last load=0.9",
            ),
            (
                "H100, KeepLast, load 0.95",
                "machine=h100 record=map|map-builds op=build keys=unique value=gps bits=32 policy=keep_last load=0.95",
            ),
            (
                "H100, Unchecked, 64-bit keys and values, load 0.8",
                "machine=h100 record=map-64|map op=build keys=unique value=gps bits=64 policy=unchecked load=0.8",
            ),
            (
                "H100, KeepLast, 64-bit keys and values, load 0.8",
                "machine=h100 record=map-64|map op=build keys=unique value=gps bits=64 policy=keep_last load=0.8",
            ),
        ],
        spread: None,
    },
    Table {
        name: "small-builds",
        first: "Unchecked builds, microseconds",
        columns: &[("2^16", "n=2^16"), ("2^17", "n=2^17"), ("2^18", "n=2^18"), ("2^20", "n=2^20")],
        rows: &[
            (
                "H200, launched by the host, load 0.8",
                "machine=h200 record=map|map-small op=build keys=unique value=gps bits=32 policy=unchecked load=0.8 value=us",
            ),
            (
                "H200, as a CUDA graph, load 0.8",
                "machine=h200 record=map|map-small op=graph_build load=0.8 value=us",
            ),
            (
                "H200, launched by the host, load 0.9",
                "machine=h200 record=map|map-small op=build keys=unique value=gps bits=32 policy=unchecked load=0.9 value=us",
            ),
            (
                "H200, as a CUDA graph, load 0.9",
                "machine=h200 record=map|map-small op=graph_build load=0.9 value=us",
            ),
            (
                "H100, launched by the host, load 0.8",
                "machine=h100 record=map|map-small op=build keys=unique value=gps bits=32 policy=unchecked load=0.8 value=us",
            ),
            (
                "H100, as a CUDA graph, load 0.8",
                "machine=h100 record=map|map-small op=graph_build load=0.8 value=us",
            ),
            (
                "H100, launched by the host, load 0.9",
                "machine=h100 record=map|map-small op=build keys=unique value=gps bits=32 policy=unchecked load=0.9 value=us",
            ),
            (
                "H100, as a CUDA graph, load 0.9",
                "machine=h100 record=map|map-small op=graph_build load=0.9 value=us",
            ),
        ],
        spread: None,
    },
    Table {
        name: "lookups",
        first: "Lookups, G/s",
        columns: &[
            ("2^16", "n=2^16"),
            ("2^18", "n=2^18"),
            ("2^20", "n=2^20"),
            ("2^22", "n=2^22"),
            ("2^24", "n=2^24"),
            ("2^27", "n=2^27"),
        ],
        rows: &[
            (
                "H200, present, load 0.8",
                "machine=h200 record=map op=find_present bits=32 load=0.8 value=gps",
            ),
            (
                "H200, absent, load 0.8",
                "machine=h200 record=map op=find_absent bits=32 load=0.8 value=gps",
            ),
            (
                "H200, present, load 0.9",
                "machine=h200 record=map op=find_present bits=32 load=0.9 value=gps",
            ),
            (
                "H200, absent, load 0.9",
                "machine=h200 record=map op=find_absent bits=32 load=0.9 value=gps",
            ),
            (
                "H200, present, load 0.95",
                "machine=h200 record=map op=find_present bits=32 load=0.95 value=gps",
            ),
            (
                "H200, absent, load 0.95",
                "machine=h200 record=map op=find_absent bits=32 load=0.95 value=gps",
            ),
            (
                "H200, present, load 0.8, share of random reads",
                "machine=h200 record=map op=find_present bits=32 load=0.8 value=of_limit",
            ),
            (
                "H200, absent, load 0.8, share of random reads",
                "machine=h200 record=map op=find_absent bits=32 load=0.8 value=of_limit",
            ),
            (
                "H100, present, load 0.8",
                "machine=h100 record=map op=find_present bits=32 load=0.8 value=gps",
            ),
            (
                "H100, absent, load 0.8",
                "machine=h100 record=map op=find_absent bits=32 load=0.8 value=gps",
            ),
            (
                "H100, present, load 0.9",
                "machine=h100 record=map op=find_present bits=32 load=0.9 value=gps",
            ),
            (
                "H100, absent, load 0.9",
                "machine=h100 record=map op=find_absent bits=32 load=0.9 value=gps",
            ),
            (
                "H100, present, load 0.95",
                "machine=h100 record=map op=find_present bits=32 load=0.95 value=gps",
            ),
            (
                "H100, absent, load 0.95",
                "machine=h100 record=map op=find_absent bits=32 load=0.95 value=gps",
            ),
            (
                "H100, present, load 0.8, share of random reads",
                "machine=h100 record=map op=find_present bits=32 load=0.8 value=of_limit",
            ),
            (
                "H100, absent, load 0.8, share of random reads",
                "machine=h100 record=map op=find_absent bits=32 load=0.8 value=of_limit",
            ),
            (
                "H200, present, 64-bit keys and values",
                "machine=h200 record=map-duplicates op=find_present keys=unique bits=64 value=gps",
            ),
            (
                "H200, absent, 64-bit keys and values",
                "machine=h200 record=map-duplicates op=find_absent keys=unique bits=64 value=gps",
            ),
        ],
        spread: None,
    },
    Table {
        name: "joins",
        first: "Queries per second, G/s",
        columns: &[
            ("2^16", "n=2^16"),
            ("2^18", "n=2^18"),
            ("2^20", "n=2^20"),
            ("2^22", "n=2^22"),
            ("2^24", "n=2^24"),
            ("2^27", "n=2^27"),
        ],
        rows: &[
            (
                "H200, join, all present, 32 bits",
                "machine=h200 record=map op=join keys=unique bits=32 load=0.8 value=gps",
            ),
            (
                "H200, join, all absent, 32 bits",
                "machine=h200 record=map op=join_absent keys=unique bits=32 load=0.8 value=gps",
            ),
            (
                "H200, semi-join, 32 bits",
                "machine=h200 record=map op=semi_join keys=unique bits=32 load=0.8 value=gps",
            ),
            (
                "H200, join, all present, 64 bits",
                "machine=h200 record=map-duplicates op=join keys=unique bits=64 load=0.8 value=gps",
            ),
            (
                "H200, join, all absent, 64 bits",
                "machine=h200 record=map-duplicates op=join_absent keys=unique bits=64 load=0.8 value=gps",
            ),
            (
                "H200, semi-join, 64 bits",
                "machine=h200 record=map-duplicates op=semi_join keys=unique bits=64 load=0.8 value=gps",
            ),
            (
                "H100, join, all present, 32 bits",
                "machine=h100 record=map op=join keys=unique bits=32 load=0.8 value=gps",
            ),
            (
                "H100, semi-join, 32 bits",
                "machine=h100 record=map op=semi_join keys=unique bits=32 load=0.8 value=gps",
            ),
        ],
        spread: None,
    },
    Table {
        name: "memory",
        first: "Bytes per key, 2^24 keys",
        columns: &[
            ("table", "value=bytes/n"),
            ("scratch memory of a build", "value=scratch_bytes/n"),
        ],
        rows: &[
            (
                "map, 32-bit keys and values, load 0.8",
                "machine=h200 n=2^24 record=map op=build keys=unique bits=32 load=0.8",
            ),
            (
                "the same, load 0.9",
                "machine=h200 n=2^24 record=map op=build keys=unique bits=32 load=0.9",
            ),
            (
                "the same, load 0.95",
                "machine=h200 n=2^24 record=map op=build keys=unique bits=32 load=0.95",
            ),
            (
                "map, 64-bit keys and values, load 0.8",
                "machine=h200 n=2^24 record=map-64 op=build keys=unique bits=64 load=0.8",
            ),
            ("set, 32-bit keys, load 0.8", "machine=h200 n=2^24 record=sets op=set_build bits=32"),
            ("set, 64-bit keys, load 0.8", "machine=h200 n=2^24 record=sets op=set_build bits=64"),
            (
                "map, 128-bit keys, 32-bit values",
                "machine=h200 n=2^24 record=keys128 op=map128_build bits=32",
            ),
            (
                "map, 128-bit keys, 64-bit values",
                "machine=h200 n=2^24 record=keys128 op=map128_build bits=64",
            ),
            ("set, 128-bit keys", "machine=h200 n=2^24 record=keys128 op=set128_build"),
        ],
        spread: None,
    },
    Table {
        name: "arrangements",
        first: "KeepLast",
        columns: &[
            (
                "H200, G/s",
                "machine=h200 record=arrangements|map|map-builds value=gps op=build bits=32 n=2^24 load=0.8 policy=keep_last",
            ),
            (
                "H100, G/s",
                "machine=h100 record=arrangements|map|map-builds value=gps op=build bits=32 n=2^24 load=0.8 policy=keep_last",
            ),
            (
                "2 cores, 32 bits, M pairs per CPU-second",
                "machine=cpu-2core record=arrangements op=build bits=32 n=2^24 policy=keep_last value=n/cpu_us",
            ),
            (
                "2 cores, 128 bits, M pairs per CPU-second",
                "machine=cpu-2core record=arrangements op=map128|map128_build n=2^22 value=n/cpu_us",
            ),
        ],
        rows: &[
            ("distinct keys, Unchecked", "keys=unique policy=unchecked"),
            ("distinct keys, KeepLast", "keys=unique"),
            ("1 % repeat the key of the pair before", "keys=near1x0.01"),
            ("5 %", "keys=near1x0.05"),
            ("20 %", "keys=near1x0.2"),
            ("20 % repeat the key 100 pairs before", "keys=near100x0.2"),
            ("3,000 pairs before", "keys=near3000x0.2"),
            ("10,000 pairs before", "keys=near10000x0.2"),
            ("20,000 pairs before", "keys=near20000x0.2"),
            ("100,000 pairs before", "keys=near100000x0.2"),
            ("sorted, 10 % copies", "keys=sorted0.1"),
            ("reversed, 10 % copies", "keys=reversed0.1"),
            ("every key 2 times in a row", "keys=runs2"),
            ("10 times", "keys=runs10"),
            ("100 times", "keys=runs100"),
            ("10,000 times", "keys=runs10000"),
            ("1,000,000 times", "keys=runs1000000"),
            ("blocks of 10,000 keys, each sent twice", "keys=blocks10000"),
            ("the input 2 times", "keys=concat2"),
            ("the input 8 times", "keys=concat8"),
            ("10 % copies anywhere", "keys=share0.1"),
            ("50 % copies anywhere", "keys=share0.5"),
            ("Zipf", "keys=zipf"),
            ("one key with 10 % of the pairs", "keys=hot"),
            ("all keys equal", "keys=equal"),
        ],
        spread: Some(2),
    },
    Table {
        name: "updates",
        first: "2^20 operations on 2^24 keys, G/s",
        columns: &[
            ("map 32, load 0.5", "kind=map bits=32 load=0.5 n=2^24 batch=2^20 value=gps"),
            ("map 32, load 0.8", "kind=map bits=32 load=0.8 n=2^24 batch=2^20 value=gps"),
            ("map 64, load 0.5", "kind=map bits=64 load=0.5 n=2^24 batch=2^20 value=gps"),
            ("map 64, load 0.8", "kind=map bits=64 load=0.8 n=2^24 batch=2^20 value=gps"),
            ("set 32, load 0.5", "kind=set bits=32 load=0.5 n=2^24 batch=2^20 value=gps"),
            ("set 32, load 0.8", "kind=set bits=32 load=0.8 n=2^24 batch=2^20 value=gps"),
            ("set 64, load 0.5", "kind=set bits=64 load=0.5 n=2^24 batch=2^20 value=gps"),
            ("set 64, load 0.8", "kind=set bits=64 load=0.8 n=2^24 batch=2^20 value=gps"),
        ],
        rows: &[
            ("H200, insert", "machine=h200 record=updates op=insert"),
            ("H200, erase", "machine=h200 record=updates op=erase"),
            ("H200, insert keys that are present", "machine=h200 record=updates op=insert_known"),
            ("H200, assign", "machine=h200 record=updates op=assign"),
            ("H200, add", "machine=h200 record=updates op=add"),
            ("H200, mixed", "machine=h200 record=updates op=mixed"),
            ("H100, insert", "machine=h100 record=updates op=insert"),
            ("H100, erase", "machine=h100 record=updates op=erase"),
            ("H100, insert keys that are present", "machine=h100 record=updates op=insert_known"),
            ("H100, assign", "machine=h100 record=updates op=assign"),
            ("H100, add", "machine=h100 record=updates op=add"),
            ("H100, mixed", "machine=h100 record=updates op=mixed"),
        ],
        spread: None,
    },
    Table {
        name: "batches",
        first: "Operations in a batch, microseconds",
        columns: &[("2^16", "batch=2^16"), ("2^18", "batch=2^18"), ("2^20", "batch=2^20")],
        rows: &[
            (
                "map, insert, load 0.5",
                "machine=h200 record=updates kind=map bits=32 load=0.5 n=2^24 op=insert value=us",
            ),
            (
                "map, insert, load 0.8",
                "machine=h200 record=updates kind=map bits=32 load=0.8 n=2^24 op=insert value=us",
            ),
            (
                "map, erase, load 0.5",
                "machine=h200 record=updates kind=map bits=32 load=0.5 n=2^24 op=erase value=us",
            ),
            (
                "map, erase, load 0.8",
                "machine=h200 record=updates kind=map bits=32 load=0.8 n=2^24 op=erase value=us",
            ),
            (
                "map, mixed, load 0.5",
                "machine=h200 record=updates kind=map bits=32 load=0.5 n=2^24 op=mixed value=us",
            ),
            (
                "map, mixed, load 0.8",
                "machine=h200 record=updates kind=map bits=32 load=0.8 n=2^24 op=mixed value=us",
            ),
            (
                "set, insert, load 0.5",
                "machine=h200 record=updates kind=set bits=32 load=0.5 n=2^24 op=insert value=us",
            ),
            (
                "set, insert, load 0.8",
                "machine=h200 record=updates kind=set bits=32 load=0.8 n=2^24 op=insert value=us",
            ),
            (
                "set, erase, load 0.5",
                "machine=h200 record=updates kind=set bits=32 load=0.5 n=2^24 op=erase value=us",
            ),
            (
                "set, erase, load 0.8",
                "machine=h200 record=updates kind=set bits=32 load=0.8 n=2^24 op=erase value=us",
            ),
            (
                "set, mixed, load 0.5",
                "machine=h200 record=updates kind=set bits=32 load=0.5 n=2^24 op=mixed value=us",
            ),
            (
                "set, mixed, load 0.8",
                "machine=h200 record=updates kind=set bits=32 load=0.8 n=2^24 op=mixed value=us",
            ),
        ],
        spread: None,
    },
    Table {
        name: "sets",
        first: "H200, load 0.8, G keys/s",
        columns: &[
            ("2^22", "machine=h200 record=sets n=2^22 value=gps"),
            ("2^24", "machine=h200 record=sets n=2^24 value=gps"),
            ("2^27", "machine=h200 record=sets n=2^27 value=gps"),
        ],
        rows: &[
            ("build, 32 bits", "op=set_build bits=32"),
            ("contains, present, 32 bits", "op=set_contains_present bits=32"),
            ("contains, absent, 32 bits", "op=set_contains_absent bits=32"),
            ("build, 64 bits", "op=set_build bits=64"),
            ("contains, present, 64 bits", "op=set_contains_present bits=64"),
            ("contains, absent, 64 bits", "op=set_contains_absent bits=64"),
            ("union, 32 bits", "op=union bits=32"),
            ("intersection, 32 bits", "op=intersection bits=32"),
            ("difference, 32 bits", "op=difference bits=32"),
            ("union, 64 bits", "op=union bits=64"),
            ("intersection, 64 bits", "op=intersection bits=64"),
            ("difference, 64 bits", "op=difference bits=64"),
        ],
        spread: None,
    },
    Table {
        name: "unique",
        first: "`unique` of 2^27 keys, H200, G keys/s",
        columns: &[
            ("32 bits", "machine=h200 record=sets op=unique n=2^27 bits=32 value=gps"),
            ("64 bits", "machine=h200 record=sets op=unique n=2^27 bits=64 value=gps"),
        ],
        rows: &[
            ("all distinct", "distinct=134217728"),
            ("about 2^24 distinct", "distinct=16771596"),
            ("about 2^21 distinct", "distinct=2097152"),
            ("about 2^15 distinct", "distinct=32768"),
            ("one key", "distinct=1"),
        ],
        spread: None,
    },
    Table {
        name: "indexes",
        first: "2^27 keys, G/s",
        columns: &[
            ("H200, 2^10 distinct", "machine=h200 record=groups n=2^27 distinct=2^10 value=gps"),
            ("H200, 2^20 distinct", "machine=h200 record=groups n=2^27 distinct=2^20 value=gps"),
            ("H200, 2^26 distinct", "machine=h200 record=groups n=2^27 distinct=2^26 value=gps"),
            ("H100, 2^10 distinct", "machine=h100 record=groups n=2^27 distinct=2^10 value=gps"),
            ("H100, 2^20 distinct", "machine=h100 record=groups n=2^27 distinct=2^20 value=gps"),
            ("H100, 2^26 distinct", "machine=h100 record=groups n=2^27 distinct=2^26 value=gps"),
        ],
        rows: &[
            ("build an index and encode", "op=encode"),
            ("encode alone", "op=ids"),
            ("ids to keys", "op=keys_of"),
            ("distinct keys and their counts", "op=group_counts"),
        ],
        spread: None,
    },
    Table {
        name: "multimaps",
        first: "2^27 pairs, G/s",
        columns: &[
            ("H200, 4 values per key", "machine=h200 record=groups n=2^27 each=4 value=gps"),
            ("H200, 16 values per key", "machine=h200 record=groups n=2^27 each=16 value=gps"),
            ("H200, 64 values per key", "machine=h200 record=groups n=2^27 each=64 value=gps"),
            ("H200, Zipf", "machine=h200 record=groups n=2^27 each=zipf value=gps"),
            ("H100, 4 values per key", "machine=h100 record=groups n=2^27 each=4 value=gps"),
            ("H100, 16 values per key", "machine=h100 record=groups n=2^27 each=16 value=gps"),
            ("H100, 64 values per key", "machine=h100 record=groups n=2^27 each=64 value=gps"),
            ("H100, Zipf", "machine=h100 record=groups n=2^27 each=zipf value=gps"),
        ],
        rows: &[
            ("build, in input order", "op=multi_build order=Input"),
            ("look up and retrieve all values, in input order", "op=retrieve order=Input"),
            ("retrieve the values alone, in input order", "op=retrieve_values order=Input"),
            ("build, in any order", "op=multi_build order=Any"),
            ("look up and retrieve all values, in any order", "op=retrieve order=Any"),
            ("retrieve the values alone, in any order", "op=retrieve_values order=Any"),
        ],
        spread: None,
    },
    Table {
        name: "primitives",
        first: "H200, G/s",
        columns: &[
            ("2^22", "machine=h200 record=primitives n=2^22 value=gps"),
            ("2^24", "machine=h200 record=primitives n=2^24 value=gps"),
            ("2^26", "machine=h200 record=primitives n=2^26 value=gps"),
            ("2^27", "machine=h200 record=primitives n=2^27 value=gps"),
        ],
        rows: &[
            ("copy of 64-bit words", "op=copy_u64"),
            ("exclusive scan, 32 bits", "op=scan_exclusive_u32"),
            ("inclusive scan, 64 bits", "op=scan_inclusive_u64"),
            ("sum, 32 bits", "op=reduce_sum_u32"),
            ("compaction to half, 32 bits", "op=compact_half_u32"),
            ("partition into 256", "op=partition_exact_hash_256"),
            ("sort, 32-bit keys", "op=sort_keys_u32"),
            ("sort, 64-bit keys", "op=sort_keys_u64"),
            ("sort, 32-bit pairs", "op=sort_pairs_u32_u32"),
            ("sort, 64-bit keys, 32-bit values", "op=sort_pairs_u64_u32"),
            ("sort, 64-bit pairs", "op=sort_pairs_u64_u64"),
        ],
        spread: None,
    },
    Table {
        name: "keys128",
        first: "H200, load 0.8, G/s",
        columns: &[
            ("2^24", "machine=h200 record=keys128 load=0.8 value=gps n=2^24"),
            ("2^27", "machine=h200 record=keys128 load=0.8 value=gps n=2^27"),
        ],
        rows: &[
            ("build a map, 32-bit values", "op=map128_build bits=32"),
            ("build a map, 64-bit values", "op=map128_build bits=64"),
            ("build a set", "op=set128_build"),
            ("map, present", "op=map128_find_present bits=32"),
            ("map, absent", "op=map128_find_absent bits=32"),
            ("set, present", "op=set128_contains_present"),
            ("set, absent", "op=set128_contains_absent"),
        ],
        spread: None,
    },
    Table {
        name: "strings",
        first: "H200, load 0.8, G/s",
        columns: &[
            ("16 bytes, 2^22", "machine=h200 record=strings length=16 n=2^22 value=gps"),
            ("2^24", "machine=h200 record=strings length=16 n=2^24 value=gps"),
            ("2^25", "machine=h200 record=strings length=16 n=2^25 value=gps"),
            ("64 bytes, 2^22, H100", "machine=h100 record=strings length=64 n=2^22 value=gps"),
        ],
        rows: &[
            ("build a set", "op=string_set_build"),
            ("rows, present", "op=string_set_rows_present"),
            ("rows, absent", "op=string_set_rows_absent"),
            ("values of a map, present", "op=string_map_get_or_present"),
        ],
        spread: None,
    },
    Table {
        name: "strings-on-cpu",
        first: "16 bytes, 2 cores, rate over hashbrown's on one",
        columns: &[
            ("2^20", "machine=cpu-2core record=strings length=16 n=2^20 value=ratio"),
            ("2^23", "machine=cpu-2core record=strings length=16 n=2^23 value=ratio"),
        ],
        rows: &[
            ("build a map", "op=build"),
            ("build a set", "op=set_build"),
            ("get, present", "op=get_present"),
            ("get, absent", "op=get_absent"),
        ],
        spread: None,
    },
    Table {
        name: "crafted",
        first: "All keys share their buckets",
        columns: &[
            ("map, 32 bits", "machine=h200 record=chosen-keys op=map key_bits=32 value=ratio"),
            ("map, 64 bits", "machine=h200 record=chosen-keys op=map key_bits=64 value=ratio"),
            ("set, 32 bits", "machine=h200 record=chosen-keys op=set key_bits=32 value=ratio"),
            ("set, 64 bits", "machine=h200 record=chosen-keys op=set key_bits=64 value=ratio"),
        ],
        rows: &[
            ("10,000 keys", "n=10000"),
            ("40,000 keys", "n=40000"),
            ("160,000 keys", "n=160000"),
            ("1,000,000 keys", "n=1000000"),
            ("4,000,000 keys", "n=4000000"),
            ("16,777,216 keys", "n=16777216"),
        ],
        spread: None,
    },
    Table {
        name: "host",
        first: "Arrays in host memory, milliseconds",
        columns: &[
            ("2^16", "n=2^16"),
            ("2^18", "n=2^18"),
            ("2^20", "n=2^20"),
            ("2^24", "n=2^24"),
            ("2^27", "n=2^27"),
        ],
        rows: &[
            ("H200, 16 cores, `build`", "machine=h200 record=host op=build value=ms"),
            ("H200, 16 cores, `get`", "machine=h200 record=host op=get value=ms"),
            ("H200, 16 cores, `contains`", "machine=h200 record=host op=contains value=ms"),
            ("H100, 16 cores, `build`", "machine=h100 record=host op=build value=ms"),
            ("H100, 16 cores, `get`", "machine=h100 record=host op=get value=ms"),
            ("H100, 16 cores, `contains`", "machine=h100 record=host op=contains value=ms"),
            ("CPU alone, 16 cores, `build`", "machine=h100 record=host-cpu op=build value=ms"),
            ("CPU alone, 16 cores, `get`", "machine=h100 record=host-cpu op=get value=ms"),
            (
                "CPU alone, 16 cores, `contains`",
                "machine=h100 record=host-cpu op=contains value=ms",
            ),
            ("CPU alone, 2 cores, `build`", "machine=cpu-2core record=host op=build value=ms"),
            ("CPU alone, 2 cores, `get`", "machine=cpu-2core record=host op=get value=ms"),
            (
                "CPU alone, 2 cores, `contains`",
                "machine=cpu-2core record=host op=contains value=ms",
            ),
        ],
        spread: None,
    },
    Table {
        name: "cpu",
        first: "2 cores, 32-bit keys and values, load 0.8, M/s",
        columns: &[
            ("2^16", "machine=cpu-2core record=bench-map-n table=map duplicates=unique n=2^16"),
            ("2^18", "machine=cpu-2core record=bench-map-n table=map duplicates=unique n=2^18"),
            ("2^20", "machine=cpu-2core record=bench-map-n table=map duplicates=unique n=2^20"),
            ("2^22", "machine=cpu-2core record=bench-map-n table=map duplicates=unique n=2^22"),
            ("2^24", "machine=cpu-2core record=bench-map-n table=map duplicates=unique n=2^24"),
            ("2^26", "machine=cpu-2core record=bench-map-n table=map duplicates=unique n=2^26"),
        ],
        rows: &[
            ("build without kept memory", "op=build_cold value=mops"),
            ("rebuild", "op=rebuild value=mops"),
            ("lookup, present", "op=find_hit value=mops"),
            ("lookup, absent", "op=find_miss value=mops"),
            (
                "rebuild, as a multiple of hashbrown in 64 shards",
                "op=rebuild value=hashbrown_sharded_ratio",
            ),
            ("lookup, present, as a multiple of it", "op=find_hit value=hashbrown_sharded_ratio"),
            ("lookup, present, as a share of random reads", "op=find_hit value=limit_ratio"),
            ("lookup, absent, as a share of random reads", "op=find_miss value=limit_ratio"),
        ],
        spread: None,
    },
    Table {
        name: "cpu-small",
        first: "2 threads, M pairs per CPU-second",
        columns: &[
            ("1,000", "machine=cpu-2core record=small-builds op=build n=1000 value=n/cpu_us"),
            ("2,000", "machine=cpu-2core record=small-builds op=build n=2000 value=n/cpu_us"),
            ("5,000", "machine=cpu-2core record=small-builds op=build n=5000 value=n/cpu_us"),
            ("10,000", "machine=cpu-2core record=small-builds op=build n=10000 value=n/cpu_us"),
            ("100,000", "machine=cpu-2core record=small-builds op=build n=100000 value=n/cpu_us"),
            (
                "1,000,000",
                "machine=cpu-2core record=small-builds op=build n=1000000 value=n/cpu_us",
            ),
        ],
        rows: &[("Unchecked", "policy=unchecked"), ("KeepLast", "policy=keep_last")],
        spread: None,
    },
    Table {
        name: "weight",
        first: "program",
        columns: &[
            ("cold release build, s", "profile=release value=wall_s"),
            ("koel's part, s", "profile=release value=koel_s"),
            ("cold dev build, s", "profile=dev value=wall_s"),
            ("grows by, MB", "profile=release value=over_empty/1e6"),
        ],
        rows: &[
            ("a `Map<u32, u32>`", "machine=cpu-2core record=weight program=map"),
            ("the same without a GPU backend", "machine=cpu-2core record=weight program=cpu"),
            (
                "everything of koel, koel-spatial and koel-vision",
                "machine=cpu-2core record=weight program=everything",
            ),
        ],
        spread: None,
    },
    Table {
        name: "first",
        first: "H200",
        columns: &[("milliseconds", "machine=h200")],
        rows: &[
            (
                "`Device::cuda` beyond `cuInit` and the context",
                "record=first-call machine_code=true value=device_cuda_ms",
            ),
            (
                "first build of 2^16 pairs beyond the second, from machine code",
                "record=first-call machine_code=true value=build_ms.0-build_ms.1",
            ),
            (
                "the same from PTX",
                "record=first-call machine_code=false value=build_ms.0-build_ms.1",
            ),
            (
                "first frame of an intersection beyond the second",
                "record=first-frame|deforming-frames value=frame_ms.0-frame_ms.1",
            ),
        ],
        spread: None,
    },
];

/// Row of the comparison: label, operation, number of pairs and load of the other programs, and the
/// rest of koel's query.
pub(super) const PEERS: &[(&str, &str, &str, &str, &str)] = &[
    ("build, 2^22, load 0.8", "build", "2^22", "0.8", "op=build policy=unchecked"),
    ("lookup, present, 2^22, load 0.8", "find_hit100", "2^22", "0.8", "op=find_present"),
    ("lookup, absent, 2^22, load 0.8", "find_hit0", "2^22", "0.8", "op=find_absent"),
    ("build, 2^24, load 0.8", "build", "2^24", "0.8", "op=build policy=unchecked"),
    ("lookup, present, 2^24, load 0.8", "find_hit100", "2^24", "0.8", "op=find_present"),
    ("lookup, absent, 2^24, load 0.8", "find_hit0", "2^24", "0.8", "op=find_absent"),
    ("build, 2^27, load 0.8", "build", "2^27", "0.8", "op=build policy=unchecked"),
    ("lookup, present, 2^27, load 0.8", "find_hit100", "2^27", "0.8", "op=find_present"),
    ("lookup, absent, 2^27, load 0.8", "find_hit0", "2^27", "0.8", "op=find_absent"),
];

pub(super) const GOALS: &[Goal] = &[
    Goal(
        "builds of 2^20 (as a graph); 2^22, load 0.8, G/s",
        "36; 50",
        &[
            (
                "machine=h200 record=map|map-small op=graph_build load=0.8 n=2^20 value=n/us/1e3",
                None,
            ),
            (
                "machine=h200 record=map|map-builds op=build keys=unique bits=32 policy=unchecked load=0.8 n=2^22 value=gps",
                None,
            ),
        ],
        "three launches; the pass that scatters: 1,280 bins leave it runs of few pairs",
    ),
    Goal(
        "builds of 2^24; 2^27",
        "57; 60",
        &[
            (
                "machine=h200 record=map|map-builds op=build keys=unique bits=32 policy=unchecked load=0.8 n=2^24 value=gps",
                None,
            ),
            (
                "machine=h200 record=map|map-builds op=build keys=unique bits=32 policy=unchecked load=0.8 n=2^27 value=gps",
                None,
            ),
        ],
        "instructions of the build: eviction and its barrier take two fifths",
    ),
    Goal(
        "the same at load 0.95",
        "38; 40",
        &[
            (
                "machine=h200 record=map|map-builds op=build keys=unique bits=32 policy=unchecked load=0.95 n=2^24 value=gps",
                None,
            ),
            (
                "machine=h200 record=map|map-builds op=build keys=unique bits=32 policy=unchecked load=0.95 n=2^27 value=gps",
                None,
            ),
        ],
        "eviction",
    ),
    Goal(
        "builds of 2^16 as a graph, us",
        "13",
        &[("machine=h200 record=map|map-small op=graph_build load=0.8 n=2^16 value=us", None)],
        "three launches",
    ),
    Goal(
        "KeepLast by Unchecked, distinct keys, 2^24",
        "0.92",
        &[(
            "machine=h200 record=map|map-builds op=build keys=unique bits=32 policy=keep_last load=0.8 n=2^24 value=gps",
            Some(
                "machine=h200 record=map|map-builds op=build keys=unique bits=32 policy=unchecked load=0.8 n=2^24 value=gps",
            ),
        )],
        "stamps, and comparisons with copies",
    ),
    Goal(
        "the same, every key twice in a row; blocks sent twice; Zipf",
        "0.65",
        &[
            (
                "machine=h200 record=arrangements op=build keys=runs2 n=2^24 value=gps",
                Some(
                    "machine=h200 record=map|map-builds op=build keys=unique bits=32 policy=unchecked load=0.8 n=2^24 value=gps",
                ),
            ),
            (
                "machine=h200 record=arrangements op=build keys=blocks10000 n=2^24 value=gps",
                Some(
                    "machine=h200 record=map|map-builds op=build keys=unique bits=32 policy=unchecked load=0.8 n=2^24 value=gps",
                ),
            ),
            (
                "machine=h200 record=arrangements op=build keys=zipf n=2^24 value=gps",
                Some(
                    "machine=h200 record=map|map-builds op=build keys=unique bits=32 policy=unchecked load=0.8 n=2^24 value=gps",
                ),
            ),
        ],
        "instructions that find copies",
    ),
    Goal(
        "64-bit builds by 32-bit ones, 2^24; 2^27",
        "0.5",
        &[
            (
                "machine=h200 record=map-64 op=build keys=unique bits=64 policy=unchecked load=0.8 n=2^24 value=gps",
                Some(
                    "machine=h200 record=map|map-builds op=build keys=unique bits=32 policy=unchecked load=0.8 n=2^24 value=gps",
                ),
            ),
            (
                "machine=h200 record=map-64 op=build keys=unique bits=64 policy=unchecked load=0.8 n=2^27 value=gps",
                Some(
                    "machine=h200 record=map|map-builds op=build keys=unique bits=32 policy=unchecked load=0.8 n=2^27 value=gps",
                ),
            ),
        ],
        "memory: each pass moves twice the bytes",
    ),
    Goal(
        "insertions of 2^20 into 2^24, load 0.5; 0.8, G/s",
        "11; 8",
        &[
            (
                "machine=h200 record=updates kind=map op=insert bits=32 n=2^24 batch=2^20 load=0.5 value=gps",
                None,
            ),
            (
                "machine=h200 record=updates kind=map op=insert bits=32 n=2^24 batch=2^20 load=0.8 value=gps",
                None,
            ),
        ],
        "reads that follow each other; steps of a block",
    ),
    Goal(
        "multimaps in input order, 4; 64 values per key, G/s",
        "32",
        &[
            ("machine=h200 record=groups op=multi_build order=Input each=4 n=2^27 value=gps", None),
            (
                "machine=h200 record=groups op=multi_build order=Input each=64 n=2^27 value=gps",
                None,
            ),
        ],
        "the sort of the pairs",
    ),
    Goal(
        "retrieval in random order, 4; 64 values per key, G/s",
        "45; 190",
        &[
            ("machine=h200 record=groups op=retrieve order=Input each=4 n=2^27 value=gps", None),
            ("machine=h200 record=groups op=retrieve order=Input each=64 n=2^27 value=gps", None),
        ],
        "random sectors",
    ),
    Goal(
        "`Map::build` of 2^24; 2^27, bytes by those of pinned copies in that time",
        "0.7",
        &[
            (
                "machine=h200 record=host op=build n=2^24 value=gb_per_s",
                Some("machine=h200 record=host op=pinned_down n=2^24 value=gb_per_s"),
            ),
            (
                "machine=h200 record=host op=build n=2^27 value=gb_per_s",
                Some("machine=h200 record=host op=pinned_down n=2^27 value=gb_per_s"),
            ),
        ],
        "the host's memory",
    ),
    Goal(
        "`Map::get` of 2^24; 2^27, bytes by those of pinned copies in that time",
        "0.7",
        &[
            (
                "machine=h200 record=host op=get n=2^24 value=gb_per_s",
                Some("machine=h200 record=host op=pinned_down n=2^24 value=gb_per_s"),
            ),
            (
                "machine=h200 record=host op=get n=2^27 value=gb_per_s",
                Some("machine=h200 record=host op=pinned_down n=2^27 value=gb_per_s"),
            ),
        ],
        "the host clears the pages of the answer",
    ),
    Goal(
        "`Map::build`; `Map::get` of 2^16, ms",
        "0.12; 0.08",
        &[
            ("machine=h200 record=host op=build n=2^16 value=ms", None),
            ("machine=h200 record=host op=get n=2^16 value=ms", None),
        ],
        "copies: 0.03 ms a direction; new pages",
    ),
];
