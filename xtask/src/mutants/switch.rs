//! Many faults in one source, each in a copy of the block that it changes, behind a switch.
//!
//! `{ a; b; }` becomes `{ if crate::planted::is(7) { a; } else { a; b; } }`. Only blocks of
//! statements are copied: a fault outside of any block, or in one evaluated at compile time, is
//! refused.
use proc_macro2::extra::DelimSpan;
use std::ops::Range;
use syn::visit::{self, Visit};

/// Environment variable with the number of the fault to switch on.
pub(super) const VARIABLE: &str = "KOEL_PLANTED";

/// Text appended to the root of a crate: `crate::planted::is`. It reads the variable once.
pub(super) const MODULE: &str = r#"
#[allow(missing_docs, dead_code, reason = "written by `cargo xtask mutants --together`")]
mod planted {
    extern crate std;
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static NUMBER: AtomicU32 = AtomicU32::new(u32::MAX);
    #[inline]
    pub fn is(number: u32) -> bool {
        let switched_on = NUMBER.load(Relaxed);
        number == if switched_on == u32::MAX { read() } else { switched_on }
    }
    #[cold]
    #[inline(never)]
    fn read() -> u32 {
        let text = std::env::var("KOEL_PLANTED");
        let number = text.map_or(0, |text| text.parse().expect("KOEL_PLANTED: a number"));
        NUMBER.store(number, Relaxed);
        number
    }
}
"#;

/// Fault in a file: its nonzero number, the text to replace, and its replacement.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    pub number: u32,
    pub old: &'a str,
    pub new: &'a str,
}

/// File with faults behind switches.
#[derive(Debug)]
pub(super) struct Switched {
    pub text: String,
    /// Faults that cannot be switched, and why.
    pub refused: Vec<(u32, String)>,
    /// Blocks with switches in `text`, and their faults.
    blocks: Vec<(Range<usize>, Vec<u32>)>,
    /// Changed copies in `text`.
    copies: Vec<(Range<usize>, u32)>,
}
impl Switched {
    /// Returns whether the text contains any fault.
    pub(super) fn has_faults(&self) -> bool {
        !self.copies.is_empty()
    }
    /// Returns the faults that the code at this byte belongs to: that of the copy, or all of the
    /// innermost block with switches; empty outside of such blocks.
    pub(super) fn faults_at(&self, at: usize) -> Vec<u32> {
        if let Some((_, number)) = self.copies.iter().find(|(range, _)| range.contains(&at)) {
            return vec![*number];
        }
        let around = self.blocks.iter().filter(|(range, _)| range.contains(&at));
        around.min_by_key(|(range, _)| range.len()).map_or(vec![], |(_, faults)| faults.clone())
    }
}

/// Inserts faults into a source. Fails if the source does not parse.
pub(super) fn switch(source: &str, changes: &[Change]) -> Result<Switched, String> {
    let blocks = Blocks::of(source)?;
    let mut refused = vec![];
    // Changed copies of each block.
    let mut copies = blocks.iter().map(|_| vec![]).collect::<Vec<Vec<(u32, String)>>>();
    for change in changes {
        match copy_of_block(source, &blocks, change) {
            Ok((block, copy)) => copies[block].push((change.number, copy)),
            Err(why) => refused.push((change.number, why)),
        }
    }
    let mut switched = Switched { text: String::new(), refused, blocks: vec![], copies: vec![] };
    let of_blocks = blocks.iter().zip(copies).filter(|(_, copies)| !copies.is_empty());
    let mut of_blocks = of_blocks.collect::<Vec<_>>();
    of_blocks.sort_by_key(|(block, _)| block.inside.start);
    write(source, 0..source.len(), &mut of_blocks.into_iter().peekable(), &mut switched);
    Ok(switched)
}

/// Block of statements.
#[derive(Clone, PartialEq, Debug)]
struct Block {
    /// Range of the text between its braces.
    inside: Range<usize>,
    /// Whether it may be evaluated at compile time.
    is_const: bool,
}

/// Index of a block and its changed contents, or why there is none.
type Copied = Result<(usize, String), String>;

/// Returns the innermost block that contains the whole change.
fn copy_of_block(source: &str, blocks: &[Block], change: &Change) -> Copied {
    let blocks = blocks.iter().enumerate();
    let at = source.find(change.old).ok_or("the text was not found")?;
    let changed = source.replacen(change.old, change.new, 1);
    let changed_blocks = Blocks::of(&changed).map_err(|e| format!("changed: {e}"))?;
    // Narrow the change to the characters that differ.
    let equal = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
    };
    let before = equal(&mut change.old.chars().zip(change.new.chars()));
    let (old, new) = (&change.old[before..], &change.new[before..]);
    let behind = equal(&mut old.chars().rev().zip(new.chars().rev()));
    let range = at + before..at + change.old.len() - behind;
    let holds = |block: &Block| block.inside.start <= range.start && range.end <= block.inside.end;
    let mut around = blocks.filter(|(_, block)| holds(block)).collect::<Vec<_>>();
    around.sort_by_key(|(_, block)| block.inside.len());
    let mut why = "it is not inside a block of statements";
    for (number, block) in around {
        let end = block.inside.end + changed.len() - source.len();
        let same = Block { inside: block.inside.start..end, ..block.clone() };
        if !changed_blocks.contains(&same) {
            continue; // the change moves a brace
        }
        if block.is_const {
            why = "it may be evaluated at compile time";
            continue;
        }
        if source[block.inside.clone()].trim_start().starts_with("#!") {
            why = "its block begins with attributes";
            continue;
        }
        return Ok((number, changed[same.inside].to_string()));
    }
    Err(why.into())
}

/// Writes a range of the source, with the changed copies of the blocks in it, in order.
fn write<'a>(
    source: &str,
    range: Range<usize>,
    blocks: &mut std::iter::Peekable<impl Iterator<Item = (&'a Block, Vec<(u32, String)>)>>,
    to: &mut Switched,
) {
    let mut at = range.start;
    while let Some((block, copies)) = blocks.next_if(|(block, _)| block.inside.start < range.end) {
        to.text += &source[at..block.inside.start];
        let begin = to.text.len();
        for (number, copy) in &copies {
            to.text += &format!(" if crate::planted::is({number}) {{");
            let begin = to.text.len();
            to.text += copy;
            to.copies.push((begin..to.text.len(), *number));
            // The last line may be a comment.
            to.text += "\n} else";
        }
        to.text += " {";
        write(source, block.inside.clone(), blocks, to);
        to.text += "\n} ";
        to.blocks.push((begin..to.text.len(), copies.iter().map(|(number, _)| *number).collect()));
        at = block.inside.end;
    }
    to.text += &source[at..range.end];
}

/// Collects the blocks of a file.
struct Blocks {
    found: Vec<Block>,
    is_const: bool,
}
impl Blocks {
    fn of(source: &str) -> Result<Vec<Block>, String> {
        let file = syn::parse_file(source).map_err(|e| {
            let start = e.span().start();
            format!("line {}: {e}", start.line)
        })?;
        let mut blocks = Blocks { found: vec![], is_const: false };
        blocks.visit_file(&file);
        Ok(blocks.found)
    }
    fn add(&mut self, braces: &DelimSpan) {
        let inside = braces.open().byte_range().end..braces.close().byte_range().start;
        self.found.push(Block { inside, is_const: self.is_const });
    }
    fn in_const(&mut self, is_const: bool, visit: impl FnOnce(&mut Self)) {
        let outside = std::mem::replace(&mut self.is_const, is_const);
        visit(self);
        self.is_const = outside;
    }
}
impl<'ast> Visit<'ast> for Blocks {
    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.add(&block.brace_token.span);
        visit::visit_block(self, block);
    }
    // A function is evaluated at compile time or not regardless of where it is.
    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        self.in_const(f.sig.constness.is_some(), |blocks| visit::visit_item_fn(blocks, f));
    }
    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.in_const(f.sig.constness.is_some(), |blocks| visit::visit_impl_item_fn(blocks, f));
    }
    fn visit_trait_item_fn(&mut self, f: &'ast syn::TraitItemFn) {
        self.in_const(f.sig.constness.is_some(), |blocks| visit::visit_trait_item_fn(blocks, f));
    }
    // Items that are always evaluated at compile time.
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.in_const(true, |blocks| visit::visit_item_const(blocks, item));
    }
    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.in_const(true, |blocks| visit::visit_item_static(blocks, item));
    }
    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.in_const(true, |blocks| visit::visit_impl_item_const(blocks, item));
    }
    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.in_const(true, |blocks| visit::visit_trait_item_const(blocks, item));
    }
    fn visit_expr_const(&mut self, expr: &'ast syn::ExprConst) {
        self.in_const(true, |blocks| visit::visit_expr_const(blocks, expr));
    }
    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
        self.in_const(true, |blocks| blocks.visit_expr(&expr.len));
    }
    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        self.in_const(true, |blocks| visit::visit_type_array(blocks, array));
    }
    fn visit_generic_argument(&mut self, argument: &'ast syn::GenericArgument) {
        self.in_const(true, |blocks| visit::visit_generic_argument(blocks, argument));
    }
    fn visit_const_param(&mut self, param: &'ast syn::ConstParam) {
        self.in_const(true, |blocks| visit::visit_const_param(blocks, param));
    }
    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.in_const(true, |blocks| visit::visit_variant(blocks, variant));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change<'a>(number: u32, old: &'a str, new: &'a str) -> Change<'a> {
        Change { number, old, new }
    }
    /// Returns the text on one line, with single spaces.
    fn switched(source: &str, changes: &[Change]) -> String {
        let switched = switch(source, changes).unwrap();
        assert_eq!(switched.refused, []);
        syn::parse_file(&switched.text).unwrap();
        switched.text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
    /// Returns why a change is refused.
    fn refused(source: &str, old: &str, new: &str) -> String {
        let switched = switch(source, &[change(1, old, new)]).unwrap();
        assert_eq!(switched.text, source);
        let [(1, why)] = &switched.refused[..] else { panic!("{switched:?}") };
        why.clone()
    }

    #[test]
    fn a_block_has_a_changed_copy_and_its_own_text() {
        assert_eq!(
            switched("fn f() { a(); b(); } // end", &[change(7, " b();", "")]),
            "fn f() { if crate::planted::is(7) { a(); } else { a(); b(); } } // end"
        );
    }

    #[test]
    fn two_faults_of_one_block_are_two_copies() {
        assert_eq!(
            switched("fn f() { a(); b(); }", &[change(7, "a()", "c()"), change(9, "b()", "c()")]),
            "fn f() { if crate::planted::is(7) { c(); b(); } else if crate::planted::is(9) \
             { a(); c(); } else { a(); b(); } }"
        );
    }

    #[test]
    fn nested_blocks_have_switches_in_the_text_of_their_own_alone() {
        let source = "fn f() { a(); while x() { b(); } if y() { c(); } } fn g() { d(); }";
        let changes = [change(1, "a()", "e()"), change(2, "b()", "e()"), change(3, "d()", "e()")];
        assert_eq!(
            switched(source, &changes),
            "fn f() { if crate::planted::is(1) { e(); while x() { b(); } if y() { c(); } } else \
             { a(); while x() { if crate::planted::is(2) { e(); } else { b(); } } \
             if y() { c(); } } } \
             fn g() { if crate::planted::is(3) { e(); } else { d(); } }"
        );
    }

    #[test]
    fn the_innermost_block_is_taken() {
        let switched_around = |before: &str, behind: &str| {
            let source = format!("fn f() {{ {before}h(1){behind} }}");
            switched(&source, &[change(1, "h(1)", "h(2)")])
        };
        // Copies the whole function's block.
        for (before, behind) in [
            ("g(|x| ", ")"),
            ("match x { A => ", ", B => y }"),
            ("if ", " { a() } else { b() }"),
            // Blocks inside a macro call are unknown.
            ("m!({ ", " })"),
        ] {
            assert_eq!(
                switched_around(before, behind),
                format!(
                    "fn f() {{ if crate::planted::is(1) {{ {before}h(2){behind} }} else \
                     {{ {before}h(1){behind} }} }}"
                )
            );
        }
        // Copies an inner block.
        for (before, behind) in [
            ("g(|x| { ", " })"),
            ("match x { A => { ", " } B => y }"),
            ("if a() { b() } else { ", " }"),
            ("unsafe { ", " }"),
            ("let y = loop { ", " };"),
        ] {
            assert_eq!(
                switched_around(before, behind),
                format!(
                    "fn f() {{ {before}if crate::planted::is(1) {{ h(2) }} else \
                     {{ h(1) }}{behind} }}"
                )
            );
        }
        // A brace moves, so the loop has another block.
        assert_eq!(
            switched("fn f() { loop { a(); } b(); }", &[change(1, "a(); } b();", "a(); b(); }")]),
            "fn f() { if crate::planted::is(1) { loop { a(); b(); } } else { loop { a(); } b(); } }"
        );
    }

    #[test]
    fn what_is_computed_at_compile_time_is_refused() {
        let at_compile_time = "compile time";
        assert!(refused("const fn f() -> u32 { 1 }", "1", "2").contains(at_compile_time));
        assert!(refused("const X: u32 = { 1 };", "1", "2").contains(at_compile_time));
        assert!(refused("static X: u32 = { 1 };", "1", "2").contains(at_compile_time));
        let method = "impl A { const fn f() -> u32 { 1 } }";
        assert!(refused(method, "1", "2").contains(at_compile_time));
        assert!(refused("type T = [u8; { 1 }];", "1", "2").contains(at_compile_time));
        // The function around an array's length can be switched, and so can one inside a constant.
        let change = [change(1, "1", "2")];
        assert!(switched("fn f() { g([x; { 1 }]) }", &change).starts_with("fn f() { if"));
        let inside = switched("const X: fn() = { fn g() { a(1) } g };", &change);
        assert!(inside.contains("fn g() { if"));
    }

    #[test]
    fn what_has_no_block_is_refused() {
        let no_block = "not inside a block of statements";
        assert!(refused("#[kernel(threads = 64)] fn f() { a() }", "64", "32").contains(no_block));
        assert!(refused("macro_rules! m { () => { a(1) } }", "1", "2").contains(no_block));
        assert!(refused("entries! { (a) { b c } }", " b", "").contains(no_block));
        assert!(refused("fn f(x: u32) {}", "u32", "u64").contains(no_block));
        assert!(refused("fn f() { #![allow(unused)] a(1) }", "1", "2").contains("attributes"));
        assert!(refused("fn f() { a(1) }", "a(1)", "a(").contains("changed: line 1"));
        assert!(switch("fn f() {", &[]).unwrap_err().contains("line 1"));
    }

    #[test]
    fn places_belong_to_faults() {
        let source = "fn f() { one(); { two(); three(); } }";
        let changes = [("one()", "wrong()"), ("two()", "ill()"), ("three()", "bad()")];
        let changes = (1..).zip(changes).map(|(number, (old, new))| change(number, old, new));
        let changes = changes.collect::<Vec<_>>();
        let switched = switch(source, &changes).unwrap();
        let at = |text: &str| switched.faults_at(switched.text.find(text).unwrap());
        assert_eq!([at("wrong"), at("ill"), at("bad")], [vec![1], vec![2], vec![3]]);
        assert_eq!(switched.faults_at(switched.text.rfind("three").unwrap()), [2, 3]);
        assert_eq!(switched.faults_at(switched.text.rfind("one").unwrap()), [1]);
        assert!(switched.faults_at(0).is_empty());
    }
}
