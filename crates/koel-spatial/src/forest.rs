//! Disjoint sets.

/// Disjoint sets in which each member knows whether it is opposed to the root of its set.
pub(crate) struct Forest {
    parent: Vec<u32>,
    opposed: Vec<bool>,
    size: Vec<u32>,
}

impl Forest {
    pub(crate) fn new(n: usize) -> Forest {
        Forest { parent: (0..n as u32).collect(), opposed: vec![false; n], size: vec![1; n] }
    }
    /// Returns the root of a member, and whether the member is opposed to it. Halves the path.
    pub(crate) fn find(&mut self, mut i: u32) -> (u32, bool) {
        let mut opposed = false;
        loop {
            let at = i as usize;
            let parent = self.parent[at] as usize;
            if parent == at {
                return (i, opposed);
            }
            // The root is not opposed to itself, so the step beyond it changes nothing.
            self.opposed[at] ^= self.opposed[parent];
            self.parent[at] = self.parent[parent];
            opposed ^= self.opposed[at];
            i = self.parent[at];
        }
    }
    /// Returns the number of members of the set with this root.
    pub(crate) fn size(&self, root: u32) -> u32 {
        self.size[root as usize]
    }
    /// Joins the sets of two members, opposed to each other or not, if the sets differ.
    pub(crate) fn join(&mut self, a: u32, b: u32, opposed: bool) {
        let ((a, of_a), (b, of_b)) = (self.find(a), self.find(b));
        if a == b {
            return;
        }
        let (small, large) =
            if self.size[a as usize] < self.size[b as usize] { (a, b) } else { (b, a) };
        self.parent[small as usize] = large;
        self.opposed[small as usize] = opposed ^ of_a ^ of_b;
        self.size[large as usize] += self.size[small as usize];
    }
}
