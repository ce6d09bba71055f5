//! Embeds the commit that the programs are built from, for recorded results.
fn main() {
    koel_provenance::embed_commit();
}
