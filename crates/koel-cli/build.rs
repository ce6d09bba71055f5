//! Embeds the commit that the program is built from, for recorded results.
fn main() {
    koel_provenance::embed_commit();
}
